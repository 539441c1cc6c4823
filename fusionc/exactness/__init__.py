"""Find values whose bits must not change, because the result of a later operator, such as Round,
depends on the last bit of the value.
"""
