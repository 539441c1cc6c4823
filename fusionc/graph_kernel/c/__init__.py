"""C code: loop nests as C functions, the C texts of a library and their headers, and the
compiler.
"""
