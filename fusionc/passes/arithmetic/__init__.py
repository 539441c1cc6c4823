"""Arithmetic with constants, and algebraic identities, in fewer or cheaper operators."""
