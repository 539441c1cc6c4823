"""`fusionc tune`: find by measurement which passes, areas and settings make a model faster on this
machine.
"""
