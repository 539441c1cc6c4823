"""What a model holds that costs time or memory where it runs, and what to do about it."""
