"""What the passes of several topics have in common."""
