"""From an area to loop nests: where each element lies, how it is computed, and in which pass over a row."""
