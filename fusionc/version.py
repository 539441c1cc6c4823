"""The version of fusionc, for every room that records or shows it."""

__version__ = "0.1.0"
