"""A conversion from begin to end, and two of its steps: onlookers, and saving a right result."""
