"""Requirements of operators for the values of certain operands. Operands are counted from 0."""

from __future__ import annotations

from fusionc.operators.domains import MICROSOFT

# Operands that are indices into a dimension of another operand, as (that operand, its axis). The
# axis "axis" means the node's attribute of that name, and "nd" means all axes from batch_dims on.
INDICES: dict[str, dict[int, tuple[int, int | str]]] = {
    "Gather": {1: (0, "axis")},
    "GatherElements": {1: (0, "axis")},
    "GatherND": {1: (0, "nd")},
    "Scatter": {1: (0, "axis")},
    "ScatterElements": {1: (0, "axis")},
    "ScatterND": {1: (0, "nd")},
    "TensorScatter": {2: (0, "axis")},
    "ArrayFeatureExtractor": {1: (0, -1)},
    "TopK": {1: (0, "axis")},
    "RoiAlign": {2: (0, 0)},
    "ReverseSequence": {1: (0, "time_axis")},
    "LSTM": {4: (0, 0)},
    "GRU": {4: (0, 0)},
    "RNN": {4: (0, 0)},
    "NegativeLogLikelihoodLoss": {1: (0, 1)},
    "SoftmaxCrossEntropyLoss": {1: (0, 1)},
    "EmbedLayerNormalization": {0: (2, 0), 1: (4, 0), 7: (3, 0)},
}
DEFAULT_AXIS = {"TopK": -1, "TensorScatter": -2}
# The operands of RotaryEmbedding for positions and table depend on its domain.
ROTARY_INDICES: dict[str, dict[int, tuple[int, int | str]]] = {
    "": {3: (1, 0)},
    MICROSOFT: {1: (2, 0)},
}
