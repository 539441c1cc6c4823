"""`fusionc tune`: find by measurement which passes, areas and settings make a model faster on this
machine. An area is a node that combines several operators and has a generated kernel.
"""
