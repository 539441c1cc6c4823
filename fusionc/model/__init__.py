"""A ModelProto on disk ↔ a graph in memory, losslessly, and questions about shapes, types and operators."""
