; ModuleID = "slice"
source_filename = "slice"
target triple = "x86_64-unknown-linux-gnu"
declare i64 @"llvm.smin.i64"(i64, i64)
declare i64 @"llvm.smax.i64"(i64, i64)

define internal void @"slice"(ptr %a0, ptr %r0, i64 %n, i64 %context, i64 %tid, i64 %threads, ptr %pool) nounwind noinline {
entry:
  %v3 = alloca i64
  %v1 = mul i64 %n, 1
  %v2 = call i64 @"ggufc.enter"(ptr %pool, i64 %tid, i64 %threads)
  store i64 0, ptr %v3, align 8
  br label %shares.body.1
shares.body.1:
  %v4 = load i64, ptr %v3, align 8
  %v5 = call i64 @"ggufc.take"(ptr %pool, i64 %tid, i64 %threads, i64 %v2, i64 %v4, i64 %v1, i64 64)
  %v6 = and i64 %v5, 4294967295
  %v7 = lshr i64 %v5, 32
  %v8 = icmp sge i64 %v6, %v7
  br i1 %v8, label %shares.done.1, label %go.1
go.1:
  br label %piece.pre.1
piece.pre.1:
  %v9 = icmp slt i64 %v6, %v7
  br i1 %v9, label %piece.body.1, label %piece.done.1
piece.body.1:
  %v10 = phi i64 [ %v6, %piece.pre.1 ], [ %piece.body.1.next, %piece.latch.1 ]
  %v11 = udiv i64 %v10, 1
  %v12 = urem i64 %v10, 1
  %v13 = mul i64 %v12, 256
  %v14 = mul i64 %v11, 16
  %v15 = add i64 %v14, 0
  %v16 = mul i64 %v15, 4
  %v17 = getelementptr inbounds i8, ptr %r0, i64 %v16
  %v18 = add i64 %v13, 256
  %v19 = call i64 @"llvm.smin.i64"(i64 %v18, i64 16)
  %v20 = sub i64 %v19, %v13
  %v21 = and i64 %v20, -8
  %v22 = add i64 %v13, %v21
  br label %column.pre.1
column.pre.1:
  %v23 = icmp slt i64 %v13, %v22
  br i1 %v23, label %column.body.1, label %column.done.1
column.body.1:
  %v24 = phi i64 [ %v13, %column.pre.1 ], [ %column.body.1.next, %column.latch.1 ]
  %v25 = mul i64 %v24, 4
  %v26 = getelementptr inbounds i8, ptr %v17, i64 %v25
  %v27 = mul i64 %v11, 48
  %v28 = add i64 %v27, %v24
  %v29 = add i64 %v28, 16
  %v30 = mul i64 %v29, 4
  %v31 = getelementptr inbounds i8, ptr %a0, i64 %v30
  %v32 = load <8 x float>, ptr %v31, align 4
  store <8 x float> %v32, ptr %v26, align 4
  br label %column.latch.1
column.latch.1:
  %column.body.1.next = add nuw nsw i64 %v24, 8
  %v33 = icmp slt i64 %column.body.1.next, %v22
  br i1 %v33, label %column.body.1, label %column.done.1
column.done.1:
  br label %piece.latch.1
piece.latch.1:
  %piece.body.1.next = add nuw nsw i64 %v10, 1
  %v34 = icmp slt i64 %piece.body.1.next, %v7
  br i1 %v34, label %piece.body.1, label %piece.done.1
piece.done.1:
  %v35 = load i64, ptr %v3, align 8
  %v36 = add i64 %v35, 1
  store i64 %v36, ptr %v3, align 8
  br label %shares.body.1
shares.done.1:
  ret void
}

define internal i64 @"ggufc.enter"(ptr %pool, i64 %tid, i64 %threads) nounwind {
entry:
  %v1 = icmp eq ptr %pool, null
  %v2 = icmp sle i64 %threads, 1
  %v3 = or i1 %v1, %v2
  br i1 %v3, label %then.1, label %endif.1
then.1:
  ret i64 -1
endif.1:
  %v4 = mul i64 %tid, 192
  %v5 = add i64 %v4, 196
  %v6 = getelementptr inbounds i8, ptr %pool, i64 %v5
  %v7 = load i32, ptr %v6, align 4
  %v8 = add i32 %v7, 1
  store i32 %v8, ptr %v6, align 4
  %v9 = zext i32 %v8 to i64
  ret i64 %v9
}

define internal i64 @"ggufc.take"(ptr %pool, i64 %tid, i64 %threads, i64 %turn, i64 %round, i64 %count, i64 %smallest) nounwind {
entry:
  %v1 = sub i64 %smallest, 1
  %v2 = add i64 %count, %v1
  %v3 = udiv i64 %v2, %smallest
  %v4 = icmp eq i64 %turn, -1
  br i1 %v4, label %then.1, label %endif.1
then.1:
  %v5 = icmp sgt i64 %round, 0
  br i1 %v5, label %then.2, label %endif.2
then.2:
  ret i64 0
endif.2:
  %v6 = mul i64 %v3, %tid
  %v7 = udiv i64 %v6, %threads
  %v8 = add i64 %tid, 1
  %v9 = mul i64 %v3, %v8
  %v10 = udiv i64 %v9, %threads
  %v11 = mul i64 %v7, %smallest
  %v12 = mul i64 %v10, %smallest
  %v13 = call i64 @"llvm.smin.i64"(i64 %v12, i64 %count)
  %v14 = shl i64 %v13, 32
  %v15 = or i64 %v11, %v14
  ret i64 %v15
endif.1:
  br label %run.pre.1
run.pre.1:
  %v16 = icmp slt i64 0, %threads
  br i1 %v16, label %run.body.1, label %run.done.1
run.body.1:
  %v17 = phi i64 [ 0, %run.pre.1 ], [ %run.body.1.next, %run.latch.1 ]
  %v18 = add i64 %tid, %v17
  %v19 = icmp sge i64 %v18, %threads
  %v20 = add i64 %tid, %v17
  %v21 = sub i64 %v20, %threads
  %v22 = add i64 %tid, %v17
  %v23 = select i1 %v19, i64 %v21, i64 %v22
  %v24 = mul i64 %v3, %v23
  %v25 = udiv i64 %v24, %threads
  %v26 = add i64 %v23, 1
  %v27 = mul i64 %v3, %v26
  %v28 = udiv i64 %v27, %threads
  %v29 = mul i64 %v23, 192
  %v30 = add i64 %v29, 256
  %v31 = getelementptr inbounds i8, ptr %pool, i64 %v30
  br label %try.body.1
try.body.1:
  %v32 = load atomic i64, ptr %v31 monotonic, align 8
  %v33 = lshr i64 %v32, 32
  %v34 = trunc i64 %v33 to i32
  %v35 = trunc i64 %turn to i32
  %v36 = sub i32 %v34, %v35
  %v37 = icmp eq i32 %v36, 0
  %v38 = and i64 %v32, 4294967295
  %v39 = select i1 %v37, i64 %v38, i64 %v25
  %v40 = icmp sgt i32 %v36, 0
  %v41 = icmp sge i64 %v39, %v28
  %v42 = or i1 %v40, %v41
  br i1 %v42, label %try.done.1, label %go.1
go.1:
  %v43 = sub i64 %v28, %v39
  %v44 = udiv i64 %v43, 3
  %v45 = call i64 @"llvm.smax.i64"(i64 %v44, i64 1)
  %v46 = add i64 %v39, %v45
  %v47 = shl i64 %turn, 32
  %v48 = or i64 %v46, %v47
  %v49 = cmpxchg ptr %v31, i64 %v32, i64 %v48 monotonic monotonic
  %v50 = extractvalue { i64, i1 } %v49, 1
  br i1 %v50, label %then.3, label %endif.3
then.3:
  %v51 = mul i64 %v39, %smallest
  %v52 = mul i64 %v46, %smallest
  %v53 = call i64 @"llvm.smin.i64"(i64 %v52, i64 %count)
  %v54 = shl i64 %v53, 32
  %v55 = or i64 %v51, %v54
  ret i64 %v55
endif.3:
  br label %try.body.1
try.done.1:
  br label %run.latch.1
run.latch.1:
  %run.body.1.next = add nuw nsw i64 %v17, 1
  %v56 = icmp slt i64 %run.body.1.next, %threads
  br i1 %v56, label %run.body.1, label %run.done.1
run.done.1:
  ret i64 0
}
