"""Merge, move or remove Slice, Split, Concat, Gather, Transpose, Reshape and Cast."""
