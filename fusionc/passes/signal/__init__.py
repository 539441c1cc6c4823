"""Fourier transforms, computed as sums if that is faster."""
