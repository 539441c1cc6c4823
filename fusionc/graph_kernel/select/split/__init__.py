"""Split a cluster into regions. Operators that one loop can compute are joined, pattern by
pattern.
"""
