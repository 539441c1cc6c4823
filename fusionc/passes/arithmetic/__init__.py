"""Formulas with constants, made shorter."""
