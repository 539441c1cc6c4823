"""Attention and rotary embeddings, as operators."""
