"""Models that are objects of Python and no files: optimized as `convert` does it, and given back as
what they were.
"""
