"""Helpers that passes of several topics share."""
