"""Lossless conversion between a ModelProto and the graph in memory, and questions about operators
and tensors.
"""
