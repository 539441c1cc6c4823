"""Fourier transforms: as the sums that they are, where these are faster."""
