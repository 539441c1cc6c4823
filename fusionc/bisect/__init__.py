"""Which rewrites make the result wrong: the conversion is repeated with fewer of them, halving the
rest.
"""
