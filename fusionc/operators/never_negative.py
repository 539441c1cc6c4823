"""Operators whose results have no negative elements: whatever their operands are, or if these have
none.
"""

NEVER_NEGATIVE = frozenset(
    {"Abs", "Exp", "Sigmoid", "Softmax", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
)
_OF_FIRST = (
    "Identity",
    "ReduceMean",
    "ReduceSum",
    "Reshape",
    "Sqrt",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)
# By operator, how many of its operands must have none.
KEEPS_SIGN = dict.fromkeys(("Add", "Mul"), 2) | dict.fromkeys(_OF_FIRST, 1)
