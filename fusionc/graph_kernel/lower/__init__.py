"""Turn an area into loop nests: where each element is, which steps compute it, and in which passes
over a row they run.
"""
