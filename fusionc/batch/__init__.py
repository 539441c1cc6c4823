"""Convert many models: find them in folders, convert them in parallel processes or on a cluster,
and show one table.
"""
