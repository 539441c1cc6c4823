"""One rewrite on its own: what it replaces and what takes the place as two small models, and
whether they agree.
"""
