"""Arithmetic with constants, and algebraic identities, become fewer or cheaper operators."""
