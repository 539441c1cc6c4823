"""Where a result must stay bit for bit: values that go straight into an operator that decides by
the last bit.
"""
