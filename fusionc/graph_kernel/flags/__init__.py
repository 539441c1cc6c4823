"""The switches of graph kernel fusion: its flags, MindSpore's stages, MindSpore's names of
operators.
"""
