"""The library of kernels: built, kept in the user's cache, laid beside the model, registered with a
session.
"""
