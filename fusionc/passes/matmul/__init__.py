"""Passes that fold biases, scales and Transposes into matrix products, and passes that join or
split products.
"""
