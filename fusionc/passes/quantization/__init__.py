"""Operators on quantized elements become faster ones: in integers, or in floating point where
integers are slow.
"""
