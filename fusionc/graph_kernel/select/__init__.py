"""Select operators for areas: cluster, expand, simplify, split by patterns, and judge the cost."""
