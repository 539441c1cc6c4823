"""The differences between two models: changed nodes, contents, and the cost of a run."""
