"""Operators around Conv, ConvTranspose and pools are folded into them, and convolutions are
joined.
"""
