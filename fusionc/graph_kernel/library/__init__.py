"""The library of kernels: build it, cache it for the user, store it next to the model, and register
it with a session.
"""
