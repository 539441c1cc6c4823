"""Functions of which no standard says how they round: kernels approximate them, each in its own
way.
"""

APPROXIMATED = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Gelu", "Log",
    "LogSoftmax", "Mish", "Pow", "QuickGelu", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Swish", "Tan",
    "Tanh",
})  # fmt: skip
