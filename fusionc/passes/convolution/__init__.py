"""Fold the operators around Conv, ConvTranspose and pools into them, and join convolutions."""
