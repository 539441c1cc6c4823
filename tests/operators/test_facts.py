"""The table of facts says what each room's set of operators says."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from fusionc.check_rewrites import mutants
from fusionc.diff import node_cost
from fusionc.graph_kernel.lower import data_movement, elementwise, reductions
from fusionc.graph_kernel.select import blocked_clusters, operator_kinds
from fusionc.graph_kernel.select.operator_kinds import OperatorKind
from fusionc.graph_kernel.select.split import rows
from fusionc.inspect import integers
from fusionc.inspect import kernels as kernels_of_models
from fusionc.integer_groups import kept_groups
from fusionc.model import operators
from fusionc.operators import (
    approximated_functions,
    deciding_operators,
    disputed_shapes,
    grid_operators,
    integer_operators,
    never_negative,
    node_work,
    randomness,
    same_everywhere,
    signed_constants,
)
from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with, operators_with, places_of
from fusionc.passes._shared import elementwise_operators, reduce_axes
from fusionc.passes.arithmetic import reduce_sum_fusion
from fusionc.passes.attention import _masks
from fusionc.passes.cleanup import (
    common_subexpression_elimination,
    constant_folding,
    idempotent_op,
    rank_question,
    requantize_remove,
    zero_initial_state,
)
from fusionc.passes.convolution import (
    _blocked_layout,
    _fused_activation,
    _joined_convolutions,
    conv1d_to_conv2d,
    conv_split,
    pooling_fusion,
)
from fusionc.passes.data_movement import cast_relu_cast_fusion
from fusionc.passes.matmul import mat_mul_elemwise_fusion
from fusionc.shapes import elements
from fusionc.verify import order_dependence, output_parts, reduction_bounds
from fusionc.verify.inputs import fitting, operands, sized_model

T = Trait
N = names_with
STRAIGHT = N(T.MOVES, T.SUMS, T.SCALES)
ARITHMETIC = STRAIGHT | N(T.ARITHMETIC)


def _items(places: Mapping[str, set[int]]) -> set[tuple[str, tuple[int, ...]]]:
    return {(name, tuple(sorted(numbers))) for name, numbers in places.items()}


def _places(trait: Trait) -> set[tuple[str, tuple[int, ...] | None]]:
    return {(name, numbers) for (_, name), numbers in places_of(trait).items()}


SETS: dict[str, tuple[Collection[object], Collection[object]]] = {
    "one": (elementwise_operators._OF_ONE, N(T.UNARY)),
    "several": (elementwise_operators._OF_SEVERAL, N(T.BROADCASTS) - {"BitShift"}),
    "kernels' elementwise": (operator_kinds._ELEMENTWISE, N(T.UNARY, T.BROADCASTS)),
    "shapes' broadcasting": (elements._BROADCASTING, N(T.BROADCASTS) - {"BitShift"}),
    "written activations": (
        set(elementwise_operators.ACTIVATIONS) - {"Abs", "Erf", "Exp", "Neg", "Sin", "Sqrt"},
        N(T.ACTIVATION),
    ),
    "joined activations": (
        _joined_convolutions.ELEMENTWISE,
        N(T.ACTIVATION) - {"Celu", "Gelu", "Softsign", "Swish", "ThresholdedRelu"},
    ),
    "Gelus": (conv_split._CONTRIB, N(T.UNARY, domain=MICROSOFT)),
    "Gelus in blocks": (_blocked_layout._CONTRIB_ACTIVATIONS, N(T.UNARY, domain=MICROSOFT)),
    "Gelus in images": (set(conv1d_to_conv2d._CONTRIB) - {"FastGelu"}, N(T.UNARY, domain=MICROSOFT)),
    "commutative": (operators.COMMUTATIVE, N(T.COMMUTATIVE)),
    "legacy axis": (operators.ALIGNED_BEFORE_7, N(T.LEGACY_AXIS)),
    "quantization": (operators.QUANTIZATION, N(T.QUANTIZES, T.DEQUANTIZES)),
    "divides": (mutants._DIVIDES, N(T.DIVIDES)),
    "views": (
        node_cost._VIEWS,
        N(T.RESHAPES, T.READS_SHAPE) | {"Identity", "Constant"},
    ),
    "as cheap": (
        common_subexpression_elimination._AS_CHEAP,
        N(T.RESHAPES, T.READS_SHAPE) | {"Identity"},
    ),
    "moves of no operations": (
        node_cost._MOVES | node_cost._VIEWS,
        N(T.MOVES, T.CASTS, T.READS_SHAPE) - {
            "CenterCropPad", "ConcatFromSequence", "Dropout", "Optional", "OptionalGetElement", "ReverseSequence",
            "SequenceAt", "SequenceConstruct", "SequenceErase", "SequenceInsert", "SplitToSequence", "Trilu",
        } | {"Constant", "ConstantOfShape", "OneHot"},
    ),
    "control": (set(node_cost._CONTROL) | {"SequenceMap"}, N(T.CONTROL)),
    "bodies": (sized_model._WITH_BODIES, N(T.CONTROL)),
    "steps": (kernels_of_models._BY_STEPS, N(T.CONTROL) - {"If", "SequenceMap"}),
    "quantizing": (integers._QUANTIZING, N(T.QUANTIZES)),
    "kernels' reductions": (
        reductions.REDUCTIONS,
        N(T.REDUCES, T.SOFTMAX, T.ROW_NORM),
    ),
    "kernels' moves": (
        data_movement.DATA_MOVEMENT,
        N(T.RESHAPES) | {"Identity", "Transpose", "Slice", "Split", "Concat", "Expand", "Gather"},
    ),
    "kernels' formulas": (
        elementwise.ELEMENTWISE,
        N(T.UNARY, T.BROADCASTS) - set(operator_kinds._WITHOUT_KERNEL.split()),
    ),
    "kinds of reshapes": (
        [op for op, kind in operator_kinds._KINDS.items() if kind == OperatorKind.RESHAPE],
        N(T.RESHAPES) | {"Identity"},
    ),
    "kinds of reductions": (
        [op for op, kind in operator_kinds._KINDS.items() if kind == OperatorKind.REDUCE],
        N(T.REDUCES, T.FINDS_INDEX),
    ),
    "norms of rows": (blocked_clusters._NORMS, N(T.ROW_NORM)),
    "split norms": (rows._NORMALIZED, N(T.ROW_NORM)),
    "split softmax": (rows._SOFTMAX, N(T.SOFTMAX)),
    "approximated": (
        approximated_functions.APPROXIMATED,
        N(T.APPROXIMATED) | N(T.APPROXIMATED, domain=MICROSOFT),
    ),
    "jumps": (deciding_operators.JUMPS.items(), places_of(T.JUMPS).items()),
    "sorts": (deciding_operators.SORTS, N(T.SORTS)),
    "signs": (deciding_operators.ZEROS.items(), places_of(T.SIGN_DECIDES).items()),
    "zeros": (deciding_operators.DIVISORS.items(), places_of(T.ZERO_DECIDES).items()),
    "turns": (deciding_operators.TURNS.items(), places_of(T.TURNS).items()),
    "moves": (deciding_operators.MOVES, N(T.MOVES)),
    "sums": (deciding_operators.SUMS, N(T.SUMS)),
    "straight": (deciding_operators.STRAIGHT, STRAIGHT),
    "keeps zeros": (deciding_operators.KEEPS_ZEROS, N(T.MOVES, T.KEEPS_ZERO)),
    "arithmetic": (deciding_operators.ARITHMETIC, ARITHMETIC),
    "continuous": (deciding_operators.CONTINUOUS, ARITHMETIC | N(T.CONTINUOUS)),
    "onnxruntime's continuous": (
        deciding_operators.CONTINUOUS_OF_MICROSOFT,
        N(T.CONTINUOUS, domain=MICROSOFT),
    ),
    "reduced": (
        [f"Reduce{how}" for how in disputed_shapes._REDUCED],
        N(T.REDUCES),
    ),
    "of channels": (
        disputed_shapes._KEEPS_CHANNELS,
        N(T.ACTIVATION, T.WINDOW_POOL) - {
            "Celu", "LpPool", "Selu", "Softsign", "Swish", "ThresholdedRelu",
        } | {"GlobalAveragePool", "Identity", "QuickGelu"},
    ),
    "whole": (grid_operators.WHOLE, N(T.WHOLE_LIMITS)),
    "comparisons": (grid_operators.COMPARISONS, N(T.COMPARES)),
    "grids": (grid_operators.GRIDS, N(T.GRID)),
    "grid inside": (grid_operators.GRID_INSIDE, operators_with(T.GRID_INSIDE)),
    "quantize": (
        integer_operators.QUANTIZE,
        operators_with(T.QUANTIZES) - {("", "DynamicQuantizeLinear")},
    ),
    "dequantize": (integer_operators.DEQUANTIZE, operators_with(T.DEQUANTIZES)),
    "between": (
        integer_operators.BETWEEN.items(),
        {name: places for (_, name), places in places_of(T.IN_INTEGERS).items()}.items(),
    ),
    "products with a float result": (integer_operators.PRODUCTS, N(T.FLOAT_RESULT)),
    "passed": (integer_operators.PASSED, N(T.PASSES_INTEGERS)),
    "made": (
        [name for _, name in integer_operators.MADE],
        N(T.FLOAT_RESULT, domain=MICROSOFT),
    ),
    "behind": (kept_groups._BEHIND, N(T.PASSES_INTEGERS) | {"Add", "Clip", "Relu"}),
    "never negative": (never_negative.NEVER_NEGATIVE, N(T.NEVER_NEGATIVE)),
    "keeps sign": (
        never_negative.KEEPS_SIGN.items(),
        {name: len(places or ()) for (_, name), places in places_of(T.KEEPS_SIGN).items()}.items(),
    ),
    "at least zero": (
        pooling_fusion._AT_LEAST_ZERO,
        N(T.NEVER_NEGATIVE, T.AT_LEAST_ZERO) - N(T.REDUCES),
    ),
    "recurrent": (node_work._RECURRENT, N(T.RECURRENT)),
    "recurrent of rank 3": (rank_question._RECURRENT, N(T.RECURRENT)),
    "random": (randomness.RANDOM, N(T.RANDOM)),
    "stateful": (
        randomness.RANDOM_OR_STATEFUL,
        N(T.RANDOM) | N(T.STATEFUL, domain=MICROSOFT),
    ),
    "same everywhere": (same_everywhere._OPERATORS, N(T.UNIFORM)),
    "unsigned": (signed_constants.CHANGED_TO_UNSIGNED.items(), places_of(T.UNSIGNED).items()),
    "of one number": (reduce_axes._OF_ONE_NUMBER, N(T.KEEPS_ONE)),
    "reductions before a move": (reduce_sum_fusion._REDUCES, N(T.REDUCES, T.FINDS_INDEX)),
    "masks": (
        _masks._MOVING,
        N(T.SELECTS) - {
            "Compress", "DepthToSpace", "Flatten", "GatherElements", "GatherND", "ReverseSequence", "SpaceToDepth",
            "Split", "Tile",
        },
    ),
    "matrix products": (constant_folding._MATRIX_PRODUCTS, N(T.MATRIX_PRODUCT) - {"Gemm"}),
    "convolutions": (constant_folding._CONVOLUTIONS, N(T.CONVOLUTION) - {"ConvTranspose"}),
    "pools": (constant_folding._POOLS, N(T.WINDOW_POOL)),
    "twice is once": (idempotent_op._TWICE_IS_ONCE, N(T.IDEMPOTENT)),
    "twice is nothing": (idempotent_op._TWICE_IS_NOTHING, N(T.INVOLUTION)),
    "moves of quantized elements": (
        requantize_remove._MOVES,
        N(T.SELECTS) - {"Compress", "ReverseSequence", "Split"} | {"MaxPool"},
    ),
    "zeros of zeros": (
        zero_initial_state._MOVING,
        N(T.SELECTS, T.CASTS) - {
            "Compress", "DepthToSpace", "GatherElements", "GatherND", "ReverseSequence", "SpaceToDepth",
        },
    ),
    "activations of FusedConv": ({*_fused_activation._OF_CONV, "Clip"}, N(T.JOINS_CONV)),
    "activations of FusedGemm": (
        [*mat_mul_elemwise_fusion._PARAMETERS, "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"],
        N(T.JOINS_GEMM),
    ),
    "exact between casts": (
        cast_relu_cast_fusion._EXACT,
        N(T.RESHAPES) | {"Relu", "Abs", "Neg", "Transpose", "Expand", "Identity"},
    ),
    "reassociated sums": (order_dependence._SUMS, N(T.WEIGHTED_SUMS)),
    "laid out": (output_parts._LAID_OUT, N(T.RESHAPES)),
    "whole numbers": (reduction_bounds._OF_WHOLE_NUMBERS, N(T.KEEPS_WHOLE)),
    "different axes": ([f"Reduce{kind}" for kind in fitting._REDUCTIONS], N(T.REDUCES)),
    "counts": (_items(operands.COUNTS), _places(T.COUNTS)),
    "offsets": (_items(operands.ZEROS), _places(T.OFFSETS)),
    "positive": (_items(operands.POSITIVE), _places(T.POSITIVE)),
    "passed on": (
        operands.PASSED_ON,
        N(T.MOVES, T.CASTS) - {
            "CenterCropPad", "Compress", "DepthToSpace", "Dropout", "Optional", "Scatter", "ScatterElements",
            "ScatterND", "SequenceErase", "SequenceInsert", "SpaceToDepth", "SplitToSequence",
        } | {"Add", "Max", "Min", "ReduceMax", "ReduceMin", "Sub"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_what_the_table_says(name: str) -> None:
    old, new = SETS[name]
    assert set(old) == set(new)
