"""Areas of convolutions and matrix products as programs: steps over images, or rows, in a blocked
layout.
"""
