"""Measure the time and memory of models. Models run in turn in fresh processes, and ratios of times
have confidence intervals.
"""
