"""Checks of single rewrites: the original nodes and their replacement become two small models,
which are compared.
"""
