"""`fusionc why`: the places where a pass nearly fires, how much of the pattern fits at each place,
and the first thing that does not fit.
"""
