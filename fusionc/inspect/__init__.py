"""What in a model costs time or memory when it runs, and what to do about it."""
