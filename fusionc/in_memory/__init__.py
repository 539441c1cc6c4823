"""Models that are Python objects, not files: optimized as by `convert`, and returned as the same
kind of object.
"""
