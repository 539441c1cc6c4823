"""Slice, Split, Concat, Gather, Transpose, Reshape, Cast: fewer of them, and earlier ones."""
