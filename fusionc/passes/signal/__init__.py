"""Fourier transforms become matrix products and convolutions if these are faster."""
