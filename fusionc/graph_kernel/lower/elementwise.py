"""Operators that compute each element of their output from one element of each input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.graph_kernel.lower.c_types import BOOL, CType, ctype_of
from fusionc.graph_kernel.lower.steps import Step, Steps
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported

_INTEGERS = ("i32", "i64", "i8", "u8")
_FLOATS = ("f32", "f64")
_ALL = (*_FLOATS, *_INTEGERS)
_TINY = {"f32": "fabsf({0}) < 0x1p-126f", "f64": "fabs({0}) < 0x1p-1022"}
_LARGEST: dict[int, float] = {
    TensorProto.FLOAT: float(np.finfo(np.float32).max),
    TensorProto.FLOAT16: float(np.finfo(np.float16).max),
    TensorProto.DOUBLE: float(np.finfo(np.float64).max),
}


@dataclass(frozen=True)
class Call:
    """What a rule computes with: the steps, the node, the C type of its result, its element type and the opset."""

    steps: Steps
    node: onnx.NodeProto
    ctype: CType
    dtype: int
    opset: int

    def op(self, template: str, *arguments: Step, cost: int = 1) -> Step:
        return self.steps.op(self.ctype, template, *arguments, cost=cost)

    def number(self, name: str, default: float) -> Step:
        """A float attribute. Raises Unsupported where it, or what is divided by it, is no number."""
        value = float(np.float32(attribute(self.node, name, default)))
        if not math.isfinite(value) or (self.node.op_type == "Celu" and not value):
            raise Unsupported(f"no kernel computes {self.node.op_type} where {name} is {value:g}")
        return self.steps.literal(self.ctype, value)


Rule = Callable[[Call, Sequence[Step | None]], Step]


def _template(text: str, cost: int = 1, ctypes: Sequence[str] = _FLOATS) -> Rule:
    """{0}, {1} … are the arguments, $ is the name of the first one's C type, @ that of its suffix in the C library."""

    def rule(call: Call, arguments: Sequence[Step | None]) -> Step:
        given = [a for a in arguments if a is not None]
        name = given[0].ctype.name
        if name not in ctypes:
            raise Unsupported(f"no kernel computes {call.node.op_type} of such elements")
        written = text.replace("$", name).replace("@", "f" if name == "f32" else "")
        return call.op(written, *given, cost=cost)

    return rule


def _by_ctype(floats: Rule, integers: Rule) -> Rule:
    def rule(call: Call, arguments: Sequence[Step | None]) -> Step:
        first = arguments[0]
        return (floats if first is not None and first.ctype.is_float else integers)(call, arguments)

    return rule


def _fold(two: Rule) -> Rule:
    """A variadic operator: from the left."""

    def rule(call: Call, arguments: Sequence[Step | None]) -> Step:
        first, *rest = _given(arguments)
        result = first if rest else call.op("{0}", first)
        for argument in rest:
            result = two(call, (result, argument))
        return result

    return rule


def _given(arguments: Sequence[Step | None]) -> list[Step]:
    return [a for a in arguments if a is not None]


def _div(call: Call, arguments: Sequence[Step | None]) -> Step:
    """A row divided by what was made of it is multiplied by the inverse: a division takes as long as six products."""
    x, y = _given(arguments)
    if not x.ctype.is_float:
        return _template("gk_div_$({0}, {1})", 30, _INTEGERS)(call, arguments)
    if y.is_reduced and x.variables > y.variables:
        normal = call.op(f"{_TINY[call.ctype.name]} ? 0x1p64f : 1", y)  # the inverse of what is subnormal overflows
        inverse = call.op("1 / ({0} * {1})", y, normal, cost=4)
        return call.op("{0} * {1} * {2}", x, inverse, normal)
    return call.op("{0} / {1}", x, y, cost=4)


def _mean(call: Call, arguments: Sequence[Step | None]) -> Step:
    total = _fold(_ARITHMETIC["Add"])(call, arguments)
    return call.op("{0} / {1}", total, call.steps.literal(call.ctype, len(arguments)), cost=4)


def _cast(call: Call, arguments: Sequence[Step | None]) -> Step:
    (x,) = _given(arguments)
    to = ctype_of(call.dtype)
    if to.name == x.ctype.name:
        return _as_half(call, x) if call.dtype == TensorProto.FLOAT16 else call.op("{0}", x)
    if to is BOOL:
        return call.op("{0} != 0", x)
    if x.ctype.is_float and not to.is_float:
        whole = f"gk_int64_{x.ctype.name}({{0}})" if to.name == "i64" else f"gk_int32_{x.ctype.name}({{0}})"
        return call.op(f"({to.local}){whole}", x, cost=3)
    if call.dtype == TensorProto.FLOAT16:
        return _as_half(call, x)
    return call.op(f"({to.local}){{0}}", x)


def _as_half(call: Call, x: Step) -> Step:
    """The nearest float16, as a float."""
    return call.steps.op(ctype_of(TensorProto.FLOAT16), "gk_round_to_half((float){0})", x, cost=5)


def _clip(call: Call, arguments: Sequence[Step | None]) -> Step:
    x = arguments[0]
    assert x is not None
    low, high = (arguments[k] if k < len(arguments) else None for k in (1, 2))
    if call.opset < 11:
        low = call.number("min", -_LARGEST[TensorProto.FLOAT])
        high = call.number("max", _LARGEST[TensorProto.FLOAT])
    elif call.dtype in _LARGEST:  # onnxruntime makes infinities finite where a bound is omitted
        low = low or call.steps.literal(call.ctype, -_LARGEST[call.dtype])
        high = high or call.steps.literal(call.ctype, _LARGEST[call.dtype])
    return _bounded(call, call.op("{0}", x), low, high)


def _bounded(call: Call, x: Step, low: Step | None, high: Step | None) -> Step:
    """x within bounds, and NaN for NaN."""
    if low is not None:
        x = call.op("{0} < {1} ? {1} : {0}", x, low)
    if high is not None:
        x = call.op("{0} > {1} ? {1} : {0}", x, high)
    return x


def _pow(call: Call, arguments: Sequence[Step | None]) -> Step:
    x, power = _given(arguments)
    simple = {"1": "{0}", "2": "{0} * {0}", "3": "{0} * {0} * {0}"}
    if power.constant is not None:
        text = power.constant.removeprefix("INT64_C(").rstrip("f)")
        number = float.fromhex(text) if "x" in text else float(text) if text.lstrip("-").isdigit() else None
        if number in (1.0, 2.0, 3.0) and call.ctype.name in ("f32", "f64", "i32", "i64"):
            return call.op(simple[str(int(number))], x)
        if number == 0.5 and call.ctype.is_float:  # pow makes +0 of -0 and +infinity of -infinity
            suffix = "f" if call.ctype.name == "f32" else ""
            return call.op(f"{{0}} == -INFINITY ? INFINITY : sqrt{suffix}({{0}} + 0)", x, cost=5)
    if call.ctype.name == "f32":
        return call.op("powf({0}, (float){1})", x, power, cost=100)
    value = call.steps.op(ctype_of(TensorProto.DOUBLE), "pow((double){0}, (double){1})", x, power, cost=200)
    if call.ctype.is_float:
        return value
    if call.ctype.name not in ("i32", "i64"):
        raise Unsupported("no kernel computes Pow of such elements")
    return call.op(f"gk_int{call.ctype.name[1:]}_f64({{0}})", value)


def _mod(call: Call, arguments: Sequence[Step | None]) -> Step:
    as_c = int(attribute(call.node, "fmod", 0))
    if call.ctype.is_float:
        return _template("fmod@({0}, {1})" if as_c else "gk_floor_mod_$({0}, {1})", 60)(call, arguments)
    return _template("gk_rem_$({0}, {1})" if as_c else "gk_mod_$({0}, {1})", 30, _INTEGERS)(call, arguments)


def _is_infinite(call: Call, arguments: Sequence[Step | None]) -> Step:
    positive, negative = attribute(call.node, "detect_positive", 1), attribute(call.node, "detect_negative", 1)
    tests = ["{0} == INFINITY"] * bool(positive) + ["{0} == -INFINITY"] * bool(negative)
    (x,) = _given(arguments)
    if x.ctype.stored == "uint16_t":  # what is finite in float may have no float16
        x = _as_half(call, x)
    return call.op(" || ".join(tests) or "0 * ({0} == 0)", x)


def _gelu(call: Call, arguments: Sequence[Step | None]) -> Step:
    (x,) = _given(arguments)
    one, half = call.steps.literal(call.ctype, 1.0), call.steps.literal(call.ctype, 0.5)
    if attribute(call.node, "approximate") == "tanh":
        scale, cubic = call.steps.literal(call.ctype, math.sqrt(2 / math.pi)), call.steps.literal(call.ctype, 0.044715)
        inner = call.op("{1} * ({0} + {2} * {0} * {0} * {0})", x, scale, cubic, cost=4)
        factor = _template("gk_tanh_$({0}, machine)", 6)(call, (inner,))
    else:
        inner = call.op("{0} * {1}", x, call.steps.literal(call.ctype, math.sqrt(0.5)))
        factor = _template("gk_erf_$({0}, machine)", 7)(call, (inner,))
    return call.op("{2} * {0} * ({3} + {1})", x, factor, half, one, cost=3)


def _hard_sigmoid(call: Call, x: Step, alpha: Step, beta: Step) -> Step:
    line = call.op("{0} * {1} + {2}", x, alpha, beta)
    return _bounded(call, line, call.steps.literal(call.ctype, 0.0), call.steps.literal(call.ctype, 1.0))


def _hard_sigmoid_rule(call: Call, arguments: Sequence[Step | None]) -> Step:
    (x,) = _given(arguments)
    return _hard_sigmoid(call, x, call.number("alpha", 0.2), call.number("beta", 0.5))


def _hard_swish(call: Call, arguments: Sequence[Step | None]) -> Step:
    (x,) = _given(arguments)
    sixth, half = call.steps.literal(call.ctype, 1 / 6), call.steps.literal(call.ctype, 0.5)
    return call.op("{0} * {1}", x, _hard_sigmoid(call, x, sixth, half))


def _swish(call: Call, arguments: Sequence[Step | None]) -> Step:
    (x,) = _given(arguments)
    scaled = call.op("{0} * {1}", x, call.number("alpha", 1.0))
    return call.op("{0} * {1}", x, _template("gk_sigmoid_$({0}, machine)", 6)(call, (scaled,)))


def _exponential(text: str, **defaults: float) -> Rule:
    """A piecewise rule with attributes: {1}, {2} … in their order."""

    def rule(call: Call, arguments: Sequence[Step | None]) -> Step:
        numbers = [call.number(name, default) for name, default in defaults.items()]
        return _template(text, 16)(call, [*arguments, *numbers])

    return rule


_ARITHMETIC: dict[str, Rule] = {
    "Add": _template("{0} + {1}", ctypes=_ALL),
    "Sub": _template("{0} - {1}", ctypes=_ALL),
    "Mul": _template("{0} * {1}", ctypes=_ALL),
    "Max": _template("gk_max_$({0}, {1})", 2, _ALL),
    "Min": _template("gk_min_$({0}, {1})", 2, _ALL),
}
_ANY = (*_ALL, "b")
_SELU = "{2} * ({0} > 0 ? {0} : {1} * gk_any_expm1_$({0}, machine))"
_ELU = "{0} < 0 ? {1} * gk_any_expm1_$({0}, machine) : {0}"
ELEMENTWISE: dict[str, Rule] = {
    "Add": _ARITHMETIC["Add"],
    "Sub": _ARITHMETIC["Sub"],
    "Mul": _ARITHMETIC["Mul"],
    "Div": _div,
    "Max": _fold(_ARITHMETIC["Max"]),
    "Min": _fold(_ARITHMETIC["Min"]),
    "Sum": _fold(_ARITHMETIC["Add"]),
    "Mean": _mean,
    "Pow": _pow,
    "Mod": _mod,
    "Abs": _by_ctype(_template("fabs@({0})"), _template("{0} < 0 ? -{0} : {0}", ctypes=_INTEGERS)),
    "Neg": _template("-{0}", ctypes=_ALL),
    "Sign": _by_ctype(_template("gk_sign_$({0})", 2), _template("({0} > 0) - ({0} < 0)", 2, _INTEGERS)),
    "Floor": _template("floor@({0})", 2),
    "Ceil": _template("ceil@({0})", 2),
    "Round": _template("rint@({0})", 2),
    "Sqrt": _template("sqrt@({0})", 5),
    "Reciprocal": _template("1 / {0}", 4),
    "Exp": _template("gk_exp_$({0}, machine)", 6),
    "Log": _template("gk_log_$({0}, machine)", 12),
    "Erf": _template("gk_erf_$({0}, machine)", 7),
    "Tanh": _template("gk_tanh_$({0}, machine)", 6),
    "Sigmoid": _template("gk_sigmoid_$({0}, machine)", 6),
    "Softplus": _template("gk_softplus_$({0}, machine)", 26),
    "Softsign": _template("{0} / (1 + fabs@({0}))", 4),
    "Sin": _template("sin@({0})", 100),
    "Cos": _template("cos@({0})", 100),
    "Relu": _by_ctype(_template("{0} < 0 ? 0 : {0}"), _template("gk_max_$({0}, 0)", ctypes=("i32", "i64", "i8"))),
    "LeakyRelu": _exponential("{0} < 0 ? {1} * {0} : {0}", alpha=0.01),
    "PRelu": _template("{0} < 0 ? {1} * {0} : {0}", ctypes=(*_FLOATS, "i32", "i64")),
    "ThresholdedRelu": _exponential("{0} > {1} ? {0} : 0", alpha=1.0),
    "Elu": _exponential(_ELU, alpha=1.0),
    "Selu": _exponential(_SELU, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "Celu": _exponential("({0} > 0 ? {0} : 0) + ({0} > 0 ? 0 : {1} * gk_any_expm1_$({0} / {1}, machine))", alpha=1.0),
    "HardSigmoid": _hard_sigmoid_rule,
    "HardSwish": _hard_swish,
    "Swish": _swish,
    "Mish": _template("{0} * gk_tanh_$(gk_softplus_$({0}, machine), machine)", 32),
    "Gelu": _gelu,
    "Clip": _clip,
    "Cast": _cast,
    "Where": _template("{0} ? {1} : {2}", ctypes=("b",)),
    "Not": _template("!{0}", ctypes=("b",)),
    "And": _template("{0} & {1}", ctypes=("b",)),
    "Or": _template("{0} | {1}", ctypes=("b",)),
    "Xor": _template("{0} ^ {1}", ctypes=("b",)),
    "Equal": _template("{0} == {1}", ctypes=_ANY),
    "Less": _template("{0} < {1}", ctypes=_ALL),
    "LessOrEqual": _template("{0} <= {1}", ctypes=_ALL),
    "Greater": _template("{0} > {1}", ctypes=_ALL),
    "GreaterOrEqual": _template("{0} >= {1}", ctypes=_ALL),
    "IsNaN": _template("{0} != {0}"),
    "IsInf": _is_infinite,
}
