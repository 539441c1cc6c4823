"""Passes that switch graph kernel fusion on or off, one for each kind of area. An area is a group
of operators that one generated kernel computes. The names are those of CANN's automatic fusion.
"""
