"""The library of kernels: built, cached for the user, stored next to the model, and registered with
a session.
"""
