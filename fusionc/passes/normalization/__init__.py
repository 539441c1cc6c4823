"""Normalizations that exporters write out, and the sums in front of them."""
