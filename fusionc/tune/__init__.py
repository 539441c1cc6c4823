"""`fusionc tune`: find by measurement which passes, areas and settings pay for this model and these
sizes.
"""
