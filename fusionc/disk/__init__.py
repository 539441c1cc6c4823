"""A model on disk ↔ its proto: external weights stay in their files, nothing is ever half
written.
"""
