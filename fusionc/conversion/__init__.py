"""A conversion from start to finish. Parts of it are onlookers, which examine each rewrite, and
saving the result if it is right.
"""
