"""Demands of operators on the values of certain operands. Operands are counted from 0."""

from __future__ import annotations

from fusionc.operators.domains import MICROSOFT

# The operand holds indices into a dimension of another operand: (that operand, its axis). "axis" is
# the node's attribute of that name; "nd" are all axes from batch_dims on.
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
# RotaryEmbedding differs between domains in where its positions and its table are.
ROTARY_INDICES: dict[str, dict[int, tuple[int, int | str]]] = {
    "": {3: (1, 0)},
    MICROSOFT: {1: (2, 0)},
}

# The operand holds sizes, counts or divisors: at least 1.
COUNTS: dict[str, set[int]] = {
    "AffineGrid": {1},
    "BlackmanWindow": {0},
    "CenterCropPad": {1},
    "Col2Im": {1, 2},
    "ConstantOfShape": {0},
    "DFT": {1},
    "Div": {1},
    "Expand": {1},
    "EyeLike": {1},
    "GRU": {4},
    "HammingWindow": {0},
    "HannWindow": {0},
    "LSTM": {4},
    "Loop": {0},
    "MaxUnpool": {2},
    "Mod": {1},
    "NonMaxSuppression": {2},
    "OneHot": {1},
    "RNN": {4},
    "Range": {1, 2},
    "Resize": {2, 3},
    "ReverseSequence": {1},
    "STFT": {1, 3},
    "Slice": {2, 4},
    "Split": {1},
    "Tile": {1},
    "TopK": {1},
    "Upsample": {1},
}

# The operand holds axes, positions in a short sequence or offsets: 0 is always right.
ZEROS: dict[str, set[int]] = {
    "CumSum": {1},
    "Pad": {1, 3},
    "ReduceL1": {1},
    "ReduceL2": {1},
    "ReduceLogSum": {1},
    "ReduceLogSumExp": {1},
    "ReduceMax": {1},
    "ReduceMean": {1},
    "ReduceMin": {1},
    "ReduceProd": {1},
    "ReduceSum": {1},
    "ReduceSumSquare": {1},
    "SequenceAt": {1},
    "SequenceErase": {1},
    "SequenceInsert": {2},
    "Slice": {1, 3},
    "Squeeze": {1},
    "Unsqueeze": {1},
}

# The operand holds variances, scales or probabilities: floats that must be positive.
POSITIVE: dict[str, set[int]] = {
    "BatchNormalization": {4},
    "Bernoulli": {0},
    "DequantizeLinear": {1},
    "Dropout": {1},
    "Log": {0},
    "QuantizeLinear": {1},
    "Sqrt": {0},
}

# The value of these operands comes out again: unchanged, moved, or a selection of its elements.
PASSED_ON: dict[str, set[int]] = {
    "Cast": {0},
    "CastLike": {0},
    "Expand": {0},
    "Flatten": {0},
    "Gather": {0},
    "GatherElements": {0},
    "GatherND": {0},
    "Identity": {0},
    "Max": set(range(64)),
    "Min": set(range(64)),
    "Pad": {0},
    "ReduceMax": {0},
    "ReduceMin": {0},
    "Reshape": {0},
    "ReverseSequence": {0},
    "Slice": {0},
    "Split": {0},
    "Squeeze": {0},
    "Tile": {0},
    "Transpose": {0},
    "Trilu": {0},
    "Unsqueeze": {0},
    "Where": {1, 2},
    "Add": {0, 1},
    "Sub": {0},
    "Concat": set(range(64)),
    "SequenceConstruct": set(range(64)),
    "SequenceAt": {0},
    "ConcatFromSequence": {0},
    "OptionalGetElement": {0},
}
