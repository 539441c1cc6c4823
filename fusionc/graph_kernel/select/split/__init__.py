"""Split: the operators of a cluster are put together again, pattern by pattern, as far as one loop
can compute them.
"""
