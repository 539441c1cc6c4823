"""Passes that remove what the model does not need, so that later passes examine less."""
