"""Split a cluster into regions. Operators that one loop can compute are joined, one pattern after
the other.
"""
