"""Optimize models that are Python objects. The result is an object of the same kind."""
