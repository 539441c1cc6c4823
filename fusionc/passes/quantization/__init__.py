"""Operators on quantized elements become faster ones: operators on integers, or floating-point
operators if the integers are slow.
"""
