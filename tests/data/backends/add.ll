; ModuleID = "add"
source_filename = "add"
target triple = "x86_64-unknown-linux-gnu"
declare i64 @"llvm.smin.i64"(i64, i64)

define internal void @"add"(ptr %a0, ptr %a1, ptr %r0, i64 %n, i64 %context, i64 %tid, i64 %threads, ptr %pool) nounwind noinline {
entry:
  %v1 = mul i64 %n, 40
  %v2 = add i64 %v1, 63
  %v3 = udiv i64 %v2, 64
  %v4 = mul i64 %v3, %tid
  %v5 = udiv i64 %v4, %threads
  %v6 = add i64 %tid, 1
  %v7 = mul i64 %v3, %v6
  %v8 = udiv i64 %v7, %threads
  %v9 = mul i64 %v5, 64
  %v10 = mul i64 %v8, 64
  %v11 = call i64 @"llvm.smin.i64"(i64 %v10, i64 %v1)
  %v12 = sub i64 %v11, %v9
  %v13 = and i64 %v12, -8
  %v14 = add i64 %v9, %v13
  br label %i.pre.1
i.pre.1:
  %v15 = icmp slt i64 %v9, %v14
  br i1 %v15, label %i.body.1, label %i.done.1
i.body.1:
  %v16 = phi i64 [ %v9, %i.pre.1 ], [ %i.body.1.next, %i.latch.1 ]
  %v17 = mul i64 %v16, 4
  %v18 = getelementptr inbounds i8, ptr %a0, i64 %v17
  %v19 = load <8 x float>, ptr %v18, align 4
  %v20 = mul i64 %v16, 4
  %v21 = getelementptr inbounds i8, ptr %a1, i64 %v20
  %v22 = load <8 x float>, ptr %v21, align 4
  %v23 = fadd <8 x float> %v19, %v22
  %v24 = mul i64 %v16, 4
  %v25 = getelementptr inbounds i8, ptr %r0, i64 %v24
  store <8 x float> %v23, ptr %v25, align 4
  br label %i.latch.1
i.latch.1:
  %i.body.1.next = add nuw nsw i64 %v16, 8
  %v26 = icmp slt i64 %i.body.1.next, %v14
  br i1 %v26, label %i.body.1, label %i.done.1
i.done.1:
  ret void
}
