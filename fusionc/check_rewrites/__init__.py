"""Checks of single rewrites: the original nodes and their replacement as two small models, and
whether these agree.
"""
