"""Inputs on which the reference runs: sizes for its dynamic dimensions, and values that its
operators accept.
"""
