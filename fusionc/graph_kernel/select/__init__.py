"""Which operators become one area: clusters, expanded, simplified, split by patterns, judged by
what they cost.
"""
