"""Ways to run a planned module: machine code (`llvm`) and the interpreter (`reference`)."""
