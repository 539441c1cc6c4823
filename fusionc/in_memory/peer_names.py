"""The names of rewrites in onnxsim and onnxslim (here called peers), and the corresponding passes
of fusionc. Calls of `fusionc.simplify` and `fusionc.slim` switch passes off by these names. If a
name has no passes in the tables, fusionc does not have such a rewrite.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import getcallargs, signature
from typing import ParamSpec, TypeVar

from onnx import ModelProto

from fusionc.errors import UsageError, advice, shown

_P = ParamSpec("_P")
_Result = TypeVar("_Result")

_MERGED_MOVES = ("TransOpSymmetryEliminationPass",)
_SHAPES = ("DimensionComputePass", "ShapeReshapePass")
_BIAS_OF_CONV = ("AABiasaddConvFusion", "Conv2DSqueezeBiasaddFusionPass")
BATCH_NORMALIZATION = (
    "ConvBatchnormFusionPass",
    "Conv2DTransposeBatchnormFusionPass",
    "BatchnormConvFusionPass",
)

ONNXSIM: Mapping[str, tuple[str, ...]] = {
    "nop": (),
    "eliminate_nop_cast": ("CastRemovePass",),
    "eliminate_nop_dropout": ("DropOutPass",),
    "eliminate_nop_flatten": ("NoUseReshapeRemovePass",),
    "extract_constant_to_initializer": ("ConstantFoldingPass",),
    "eliminate_consecutive_idempotent_ops": ("IdempotentOpPass",),
    "eliminate_if_with_const_cond": ("SwitchDeadBranchElimination",),
    "eliminate_nop_monotone_argmax": (),
    "eliminate_nop_pad": ("NoUseReshapeRemovePass",),
    "eliminate_nop_concat": ("IdentityPass",),
    "eliminate_nop_split": ("IdentityPass", "NoUseReshapeRemovePass"),
    "eliminate_nop_expand": ("NoUseReshapeRemovePass",),
    "eliminate_shape_gather": _SHAPES,
    "eliminate_slice_after_shape": _SHAPES,
    "eliminate_shape_op": _SHAPES,
    "eliminate_nop_transpose": ("UnchangedTransposeRemovePass",),
    "eliminate_nop_reshape": ("NoUseReshapeRemovePass",),
    "eliminate_nop_with_unit": ("UselessBinaryOpRemovePass",),
    "eliminate_common_subexpression": ("CommonSubexpressionEliminationPass",),
    "eliminate_deadend": ("PrunePass",),
    "eliminate_identity": ("IdentityPass",),
    "eliminate_unused_initializer": ("PrunePass",),
    "eliminate_duplicate_initializer": ("RemoveSameConstPass",),
    "fuse_add_bias_into_conv": _BIAS_OF_CONV,
    "fuse_bn_into_conv": BATCH_NORMALIZATION,
    "fuse_concat_into_reshape": _SHAPES,
    "fuse_consecutive_concats": ("ZConcatv2dFusionPass",),
    "fuse_consecutive_log_softmax": (),
    "fuse_consecutive_reduce_unsqueeze": ("AReduceSumFusionPass",),
    "fuse_consecutive_slices": ("StridedSliceMergePass",),
    "fuse_consecutive_squeezes": _MERGED_MOVES,
    "fuse_consecutive_squeeze_unsqueeze": _MERGED_MOVES,
    "fuse_consecutive_transposes": _MERGED_MOVES,
    "fuse_consecutive_unsqueezes": _MERGED_MOVES,
    "fuse_matmul_add_bias_into_gemm": ("MatMulBiasAddFusionPass",),
    "fuse_pad_into_conv": ("PadConv2dFusionPass",),
    "fuse_pad_into_pool": ("PoolingFusionPass",),
    "fuse_qkv": ("SameInputMatMulPass",),
    "fuse_transpose_into_gemm": ("BatchMatMulFusionPass",),
    "rewrite_where": (),
}

ONNXSLIM_PATTERNS: Mapping[str, tuple[str, ...]] = {
    "EliminationConcat": ("ZConcatv2dFusionPass",),
    "EliminationReshape": _MERGED_MOVES,
    "EliminationReshapeAs": _SHAPES,
    "EliminationSlice": ("StridedSliceMergePass",),
    "EliminationTranspose": _MERGED_MOVES,
    "EliminationTransposeAsReshape": ("Dim1TransposeToSqueezePass",),
    "EliminationTransposeViewTranspose": _MERGED_MOVES,
    "EliminationUnsqueeze": _MERGED_MOVES,
    "FusionConcatReshape": _SHAPES,
    "FusionConvAdd": _BIAS_OF_CONV,
    "FusionConvBN": ("ConvBatchnormFusionPass",),
    "FusionConvMul": ("ConvScaleFusionPass",),
    "FusionConvTransposeAdd": _BIAS_OF_CONV,
    "FusionConvTransposeBN": ("Conv2DTransposeBatchnormFusionPass",),
    "FusionConvTransposeMul": ("ConvScaleFusionPass",),
    "FusionGelu": ("GeluFusionPass",),
    "FusionGemm": ("MatMulBiasAddFusionPass", "MatMulReshapeBiasAddFusionPass"),
    "FusionGemmAdd": ("MatMulBiasAddFusionPass",),
    "FusionGemmMul": ("GemmScaleFusionPass",),
    "FusionPadConv": ("PadConv2dFusionPass",),
    "FusionReduce": ("AReduceSumFusionPass",),
}


def passes_for(
    names: Iterable[str], known: Mapping[str, tuple[str, ...]], argument: str
) -> list[str]:
    """The passes that correspond to these names of a peer's rewrites. Raises UsageError for an
    unknown name.
    """
    passes = list[str]()
    for name in names:
        if name not in known:
            hint = advice(name, known, f"the names are: {', '.join(known)}")
            raise UsageError(f"{argument}: there is no {name}", hint=hint, code="E10001")
        passes += known[name]
    return passes


def switches(off: Iterable[str], on: Iterable[str] = ()) -> str | None:
    """The value of the option `optimization_switch` that switches these passes off and on."""
    values = {**dict.fromkeys(off, "off"), **dict.fromkeys(on, "on")}
    return ";".join(f"{name}:{value}" for name, value in values.items()) or None


def refuse_arguments(
    hints: Mapping[str, str],
) -> Callable[[Callable[_P, _Result]], Callable[_P, _Result]]:
    """A decorator for functions with arguments that fusionc does not support. A call raises
    UsageError if an argument in `hints` does not have its default value. False, 0 and empty values
    count as `None`.
    """

    def decorate(function: Callable[_P, _Result]) -> Callable[_P, _Result]:
        parameters = signature(function).parameters

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
            arguments = getcallargs(function, *args, **kwargs)
            for name, hint in hints.items():
                default = parameters[name].default
                if (arguments[name] or None) != (default or None):
                    what = f"{function.__name__} does not support the argument {name}"
                    raise UsageError(what, hint=hint, code="E10001")
            return function(*args, **kwargs)

        return call

    return decorate


def require_model(name: str, model: object) -> None:
    """Raise UsageError if a model is neither a path nor a ModelProto: peers take no other kinds of
    models.
    """
    if isinstance(model, list):
        hint = "fusionc diff shows what differs between two models"
        raise UsageError(f"{name} takes one model, not a list of them", hint=hint, code="E10001")
    if not isinstance(model, str | os.PathLike | ModelProto):
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        what = f"{name} takes a path or an onnx.ModelProto, not {kind}"
        hint = "fusionc.optimize takes bytes and models of other packages, too"
        raise UsageError(what, hint=hint, code="E10001")


def require_list(name: str, value: object, example: str) -> None:
    """Raise UsageError if an argument is not a list of strings. A single string is refused, because
    its characters would count as the items.
    """
    if isinstance(value, str) or not (
        value is None or (isinstance(value, Iterable) and all(map(_is_text, value)))
    ):
        raise UsageError(
            f"{name} is {shown(value)}, not a list", hint=f'give ["{example}"]', code="E10001"
        )


def require_mapping(name: str, value: object, example: str) -> None:
    """Raise UsageError if an argument is not a mapping."""
    if not isinstance(value, Mapping | None):
        raise UsageError(
            f"{name} is {shown(value)}, not a dict", hint=f"give {example}", code="E10001"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)
