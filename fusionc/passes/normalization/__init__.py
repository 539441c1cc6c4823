"""Normalizations that exporters write out, and residual sums before them, become one operator."""
