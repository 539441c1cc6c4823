"""Operators before and after Conv, ConvTranspose and pools are folded into these, and convolutions
are joined.
"""
