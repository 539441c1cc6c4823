"""Normalizations that exporters write as several operators become one operator, with or without the
residual sum before them.
"""
