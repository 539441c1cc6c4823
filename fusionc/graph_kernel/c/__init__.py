"""C text: loop nests as functions, the file with all kernels, the headers that each file has, the compiler."""
