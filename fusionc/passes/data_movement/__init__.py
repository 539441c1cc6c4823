"""Operators that move elements (Slice, Split, Concat, Gather, Transpose, Reshape), and Casts around
them, are merged, moved or removed.
"""
