"""From an area to loop nests: the place of each element, its steps, and their passes over a row."""
