"""A conversion as data: what was asked, what was made of the model, one attempt at it, the
verdict.
"""
