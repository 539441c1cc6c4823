"""Fewer Slice, Split, Concat, Gather, Transpose, Reshape and Cast, and earlier in the graph."""
