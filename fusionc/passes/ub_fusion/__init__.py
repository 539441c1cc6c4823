"""Passes for the target runtime: they may emit operators that only it has kernels for."""
