"""Attention and rotary embeddings that are written out become one operator."""
