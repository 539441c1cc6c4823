"""A ModelProto on disk ↔ a graph in memory, losslessly, and questions about operators and
tensors.
"""
