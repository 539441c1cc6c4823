"""Find the rewrites that make the result wrong: convert again with fewer of them, halving the range
each time.
"""
