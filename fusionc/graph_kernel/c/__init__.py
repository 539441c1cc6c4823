"""C text: loop nests as functions, the texts of a library, the headers that each has, the
compiler.
"""
