"""Inputs on which the reference runs: sizes for its dynamic dimensions, values that its operators
take.
"""
