"""Activations that exporters write out, as operators."""
