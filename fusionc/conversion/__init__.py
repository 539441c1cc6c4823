"""A conversion from start to finish, and two of its steps: onlookers, and saving a right result."""
