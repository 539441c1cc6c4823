"""`fusionc tune`: what pays here, for this model and these sizes, found by measurement: passes,
areas, settings.
"""
