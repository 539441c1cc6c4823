"""Values that must stay bit for bit: those that go straight into an operator that decides by the
last bit.
"""
