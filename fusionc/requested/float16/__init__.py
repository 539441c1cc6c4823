"""Lower a model from float32 to float16 (--precision_mode_v2): which nodes compute in float16, and
the model with Casts where both types meet.
"""
