"""What models cost when they run: models take turns in fresh processes, and ratios come with
confidence intervals.
"""
