"""Normalizations that exporters write out, and the sums before them."""
