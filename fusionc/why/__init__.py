"""`fusionc why`: the places where a pass nearly fires, how far its patterns get there, and the
first thing that does not fit.
"""
