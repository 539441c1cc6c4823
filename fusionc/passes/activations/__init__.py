"""Activations that exporters write out in several operators become one operator each."""
