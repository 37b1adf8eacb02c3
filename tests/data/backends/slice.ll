; ModuleID = "slice"
source_filename = "slice"
target triple = "x86_64-unknown-linux-gnu"
declare i64 @"llvm.smin.i64"(i64, i64)

define internal void @"slice"(ptr %a0, ptr %r0, i64 %n, i64 %context, i64 %tid, i64 %threads, ptr %pool) nounwind noinline {
entry:
  %v1 = mul i64 %n, 1
  %v2 = mul i64 %v1, %tid
  %v3 = udiv i64 %v2, %threads
  %v4 = add i64 %tid, 1
  %v5 = mul i64 %v1, %v4
  %v6 = udiv i64 %v5, %threads
  br label %piece.pre.1
piece.pre.1:
  %v7 = icmp slt i64 %v3, %v6
  br i1 %v7, label %piece.body.1, label %piece.done.1
piece.body.1:
  %v8 = phi i64 [ %v3, %piece.pre.1 ], [ %piece.body.1.next, %piece.latch.1 ]
  %v9 = udiv i64 %v8, 1
  %v10 = urem i64 %v8, 1
  %v11 = mul i64 %v10, 256
  %v12 = mul i64 %v9, 16
  %v13 = add i64 %v12, 0
  %v14 = mul i64 %v13, 4
  %v15 = getelementptr inbounds i8, ptr %r0, i64 %v14
  %v16 = add i64 %v11, 256
  %v17 = call i64 @"llvm.smin.i64"(i64 %v16, i64 16)
  %v18 = sub i64 %v17, %v11
  %v19 = and i64 %v18, -8
  %v20 = add i64 %v11, %v19
  br label %column.pre.1
column.pre.1:
  %v21 = icmp slt i64 %v11, %v20
  br i1 %v21, label %column.body.1, label %column.done.1
column.body.1:
  %v22 = phi i64 [ %v11, %column.pre.1 ], [ %column.body.1.next, %column.latch.1 ]
  %v23 = mul i64 %v22, 4
  %v24 = getelementptr inbounds i8, ptr %v15, i64 %v23
  %v25 = mul i64 %v9, 48
  %v26 = add i64 %v25, %v22
  %v27 = add i64 %v26, 16
  %v28 = mul i64 %v27, 4
  %v29 = getelementptr inbounds i8, ptr %a0, i64 %v28
  %v30 = load <8 x float>, ptr %v29, align 4
  store <8 x float> %v30, ptr %v24, align 4
  br label %column.latch.1
column.latch.1:
  %column.body.1.next = add nuw nsw i64 %v22, 8
  %v31 = icmp slt i64 %column.body.1.next, %v20
  br i1 %v31, label %column.body.1, label %column.done.1
column.done.1:
  br label %piece.latch.1
piece.latch.1:
  %piece.body.1.next = add nuw nsw i64 %v8, 1
  %v32 = icmp slt i64 %piece.body.1.next, %v6
  br i1 %v32, label %piece.body.1, label %piece.done.1
piece.done.1:
  ret void
}
