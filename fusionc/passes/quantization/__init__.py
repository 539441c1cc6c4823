"""Operators on quantized elements."""
