"""The story of a conversion, on one page, and its steps: save if right, onlookers."""
