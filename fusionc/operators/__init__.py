"""Facts on operators, in tables: no graphs, nothing that is computed."""
