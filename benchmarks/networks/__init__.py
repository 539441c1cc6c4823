"""Networks of many families, with random weights, that are written in short for
benchmarks/unseen.
"""
