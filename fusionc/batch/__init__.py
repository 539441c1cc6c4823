"""Many models at once: found in folders, converted in parallel processes or on a cluster, shown in
one table.
"""
