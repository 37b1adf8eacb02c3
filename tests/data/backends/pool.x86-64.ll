; ModuleID = "pool"
source_filename = "pool"
target triple = "x86_64-unknown-linux-gnu"
declare void @"llvm.x86.sse2.pause"()
declare i32 @"llvm.smin.i32"(i32, i32)
declare i32 @"llvm.smax.i32"(i32, i32)
declare i64 @"llvm.smax.i64"(i64, i64)

define internal i64 @"ggufc.futex"(i64 %number, ptr %word, i64 %operation, i64 %value) nounwind noinline prologue [18 x i8] c"\48\89\F8\48\89\F7\48\89\D6\48\89\CA\45\31\D2\0F\05\C3" {
entry:
  ret i64 0
}

define internal void @"ggufc.signal"(ptr %line, i32 %count) nounwind {
entry:
  %v1 = atomicrmw xchg ptr %line, i32 %count seq_cst
  %v2 = getelementptr inbounds i8, ptr %line, i64 4
  %v3 = load atomic i32, ptr %v2 seq_cst, align 4
  %v4 = icmp ne i32 %v3, 0
  br i1 %v4, label %then.1, label %endif.1
then.1:
  %v5 = zext i32 2147483647 to i64
  %v6 = call i64 @"ggufc.futex"(i64 202, ptr %line, i64 129, i64 %v5)
  br label %endif.1
endif.1:
  ret void
}

define internal void @"ggufc.sleep"(ptr %line, i32 %count) nounwind noinline cold {
entry:
  %v1 = getelementptr inbounds i8, ptr %line, i64 4
  %v2 = atomicrmw add ptr %v1, i32 1 seq_cst
  br label %while.body.1
while.body.1:
  %v3 = load atomic i32, ptr %line seq_cst, align 4
  %v4 = sub i32 %v3, %count
  %v5 = icmp sge i32 %v4, 0
  br i1 %v5, label %while.done.1, label %go.1
go.1:
  %v6 = zext i32 %v3 to i64
  %v7 = call i64 @"ggufc.futex"(i64 202, ptr %line, i64 128, i64 %v6)
  br label %while.body.1
while.done.1:
  %v8 = atomicrmw sub ptr %v1, i32 1 seq_cst
  ret void
}

define internal i32 @"ggufc.wait"(ptr %line, i32 %count, i32 %patience) nounwind {
entry:
  %v1 = alloca i32
  %v2 = alloca i32
  store i32 %patience, ptr %v1, align 4
  store i32 0, ptr %v2, align 4
  br label %while.body.1
while.body.1:
  %v3 = load atomic i32, ptr %line acquire, align 4
  %v4 = sub i32 %v3, %count
  %v5 = icmp sge i32 %v4, 0
  br i1 %v5, label %while.done.1, label %go.1
go.1:
  call void @"llvm.x86.sse2.pause"()
  %v6 = load i32, ptr %v1, align 4
  %v7 = sub i32 %v6, 1
  store i32 %v7, ptr %v1, align 4
  %v8 = load i32, ptr %v1, align 4
  %v9 = icmp sle i32 %v8, 0
  br i1 %v9, label %then.1, label %endif.1
then.1:
  call void @"ggufc.sleep"(ptr %line, i32 %count)
  store i32 1, ptr %v2, align 4
  br label %endif.1
endif.1:
  br label %while.body.1
while.done.1:
  %v10 = load i32, ptr %v2, align 4
  ret i32 %v10
}

define internal void @"ggufc.barrier"(ptr %pool, i64 %tid, i64 %threads) nounwind noinline {
entry:
  %v4 = alloca i64
  %v1 = getelementptr inbounds i8, ptr %pool, i64 128
  %v2 = mul i64 %tid, 192
  %v3 = getelementptr inbounds i8, ptr %v1, i64 %v2
  store i64 1, ptr %v4, align 8
  br label %while.body.1
while.body.1:
  %v5 = load i64, ptr %v4, align 8
  %v6 = icmp sge i64 %v5, %threads
  br i1 %v6, label %while.done.1, label %go.1
go.1:
  %v7 = load atomic i32, ptr %v3 monotonic, align 4
  %v8 = add i32 %v7, 1
  call void @"ggufc.signal"(ptr %v3, i32 %v8)
  %v9 = icmp sge i64 %tid, %v5
  %v10 = sub i64 %tid, %v5
  %v11 = sub i64 %tid, %v5
  %v12 = add i64 %v11, %threads
  %v13 = select i1 %v9, i64 %v10, i64 %v12
  %v14 = mul i64 %v13, 192
  %v15 = getelementptr inbounds i8, ptr %v1, i64 %v14
  %v16 = getelementptr inbounds i8, ptr %v3, i64 64
  %v17 = load i32, ptr %v16, align 4
  %v18 = call i32 @"ggufc.wait"(ptr %v15, i32 %v8, i32 %v17)
  %v19 = add i32 %v17, 64
  %v20 = call i32 @"llvm.smin.i32"(i32 %v19, i32 20000)
  %v21 = lshr i32 %v17, 2
  %v22 = call i32 @"llvm.smax.i32"(i32 %v21, i32 256)
  %v23 = icmp ne i32 %v18, 0
  %v24 = select i1 %v23, i32 %v22, i32 %v20
  store i32 %v24, ptr %v16, align 4
  %v25 = shl i64 %v5, 1
  store i64 %v25, ptr %v4, align 8
  br label %while.body.1
while.done.1:
  ret void
}

define i64 @"ggufc_pool_bytes"(i64 %threads) nounwind {
entry:
  %v1 = call i64 @"llvm.smax.i64"(i64 %threads, i64 1)
  %v2 = mul i64 %v1, 192
  %v3 = add i64 %v2, 128
  ret i64 %v3
}

define void @"ggufc_pool_init"(ptr %pool, i64 %threads) nounwind {
entry:
  %v1 = call i64 @"llvm.smax.i64"(i64 %threads, i64 1)
  %v2 = mul i64 %v1, 192
  %v3 = add i64 %v2, 128
  br label %i.pre.1
i.pre.1:
  %v4 = icmp slt i64 0, %v3
  br i1 %v4, label %i.body.1, label %i.done.1
i.body.1:
  %v5 = phi i64 [ 0, %i.pre.1 ], [ %i.body.1.next, %i.latch.1 ]
  %v6 = getelementptr inbounds i8, ptr %pool, i64 %v5
  store i64 0, ptr %v6, align 8
  br label %i.latch.1
i.latch.1:
  %i.body.1.next = add nuw nsw i64 %v5, 8
  %v7 = icmp slt i64 %i.body.1.next, %v3
  br i1 %v7, label %i.body.1, label %i.done.1
i.done.1:
  store i64 %v1, ptr %pool, align 8
  br label %i.pre.2
i.pre.2:
  %v8 = icmp slt i64 0, %v1
  br i1 %v8, label %i.body.2, label %i.done.2
i.body.2:
  %v9 = phi i64 [ 0, %i.pre.2 ], [ %i.body.2.next, %i.latch.2 ]
  %v10 = mul i64 %v9, 192
  %v11 = getelementptr inbounds i8, ptr %pool, i64 %v10
  %v12 = getelementptr inbounds i8, ptr %v11, i64 192
  store i32 20000, ptr %v12, align 4
  br label %i.latch.2
i.latch.2:
  %i.body.2.next = add nuw nsw i64 %v9, 1
  %v13 = icmp slt i64 %i.body.2.next, %v1
  br i1 %v13, label %i.body.2, label %i.done.2
i.done.2:
  %v14 = getelementptr inbounds i8, ptr %pool, i64 64
  store atomic i32 0, ptr %v14 release, align 4
  ret void
}

define void @"ggufc_pool_close"(ptr %pool) nounwind {
entry:
  %v1 = getelementptr inbounds i8, ptr %pool, i64 80
  store ptr null, ptr %v1, align 8
  %v2 = getelementptr inbounds i8, ptr %pool, i64 88
  store ptr null, ptr %v2, align 8
  %v3 = getelementptr inbounds i8, ptr %pool, i64 64
  %v4 = load atomic i32, ptr %v3 monotonic, align 4
  %v5 = add i32 %v4, 1
  call void @"ggufc.signal"(ptr %v3, i32 %v5)
  ret void
}

define void @"ggufc_worker"(ptr %pool, i64 %index) nounwind {
entry:
  %v1 = alloca i32
  store i32 0, ptr %v1, align 4
  br label %while.body.1
while.body.1:
  %v2 = load i32, ptr %v1, align 4
  %v3 = add i32 %v2, 1
  store i32 %v3, ptr %v1, align 4
  %v4 = getelementptr inbounds i8, ptr %pool, i64 64
  %v5 = load i32, ptr %v1, align 4
  %v6 = call i32 @"ggufc.wait"(ptr %v4, i32 %v5, i32 60000)
  %v7 = getelementptr inbounds i8, ptr %pool, i64 80
  %v8 = load ptr, ptr %v7, align 8
  %v9 = icmp eq ptr %v8, null
  br i1 %v9, label %while.done.1, label %go.1
go.1:
  %v10 = getelementptr inbounds i8, ptr %pool, i64 88
  %v11 = load ptr, ptr %v10, align 8
  %v12 = load i64, ptr %pool, align 8
  call void %v8(ptr %v11, i64 %index, i64 %v12, ptr %pool)
  br label %while.body.1
while.done.1:
  ret void
}
