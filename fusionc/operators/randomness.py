"""Operators whose second run may give another answer, or that change something outside the graph.

Nothing of these is ever folded, merged or removed. Dropout and BatchNormalization depend on an
attribute or input: see `is_pure` in `model.operators`.
"""

RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
RANDOM_OR_STATEFUL = RANDOM | {
    "BeamSearch", "BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "GreedySearch", "PythonOp", "SampleOp",
    "Sampling", "WhisperBeamSearch",
}  # fmt: skip
