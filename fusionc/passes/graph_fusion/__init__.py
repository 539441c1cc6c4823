"""Passes that hold on any hardware: they emit operators of the standard domain only."""
