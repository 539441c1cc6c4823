"""`fusionc why`: the places where a pass nearly fires, how much of its patterns fits at each, and
the first thing that does not fit.
"""
