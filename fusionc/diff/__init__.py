"""What differs between two models: which node became which, what they hold, and what a run of them
moves.
"""
