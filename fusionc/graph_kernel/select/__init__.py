"""Select the operators of areas: cluster, expand, simplify and split them, and judge the cost."""
