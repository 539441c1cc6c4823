"""The differences between two models: which node became which, what they contain, and what a run
moves.
"""
