"""A conversion from start to finish, and two parts of it: onlookers, which examine each rewrite,
and saving the result if it is right.
"""
