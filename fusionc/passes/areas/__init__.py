"""Names of CANN's automatic fusion; graph kernel fusion does the work."""
