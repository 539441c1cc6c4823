"""Split: join the operators of a cluster, pattern by pattern, if one loop can compute them."""
