"""What models cost where they run: models in turn, in fresh processes; ratios with the confidence
that they deserve.
"""
