"""Operators that compute each element of their output from one element of each input."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape, attribute
from fusionc.graph_kernel.lower.broadcasting import broadcast_shape
from fusionc.graph_kernel.lower.c_types import BOOL, CType, ctype_of
from fusionc.graph_kernel.lower.index import Index
from fusionc.graph_kernel.lower.lowering import Lowering, OperatorLowering
from fusionc.graph_kernel.lower.steps import Step, Steps
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported

_INTEGERS = ("i32", "i64", "i8", "u8")
_FLOATS = ("f32", "f64")
_NUMBERS = (*_FLOATS, *_INTEGERS)
_TYPES = {
    "float": _FLOATS,
    "integer": _INTEGERS,
    "number": _NUMBERS,
    "bool": ("b",),
    "any": (*_NUMBERS, "b"),
}
# One line for each operator and, if its types have different formulas, for each group of these
# types: the operator, the types, the cost of an element (in sixteenths of a nanosecond), and the C
# expression. {0}, {1} … are the inputs. An attribute is written as its name in braces. `Steps.op`
# explains $ and @.
_FORMULAS = """
Add             number          1 {0} + {1}
Sub             number          1 {0} - {1}
Mul             number          1 {0} * {1}
Sum             number          1 {0} + {1}
Neg             number          1 -{0}
Abs             float           1 fabs@({0})
Abs             integer         1 {0} < 0 ? -{0} : {0}
Floor           float           2 floor@({0})
Ceil            float           2 ceil@({0})
Round           float           2 rint@({0})
Sqrt            float           5 sqrt@({0})
Reciprocal      float           4 1 / {0}
Exp             float           6 gk_exp_$({0}, machine)
Log             float          12 gk_log_$({0}, machine)
Erf             float           7 gk_erf_$({0}, machine)
Tanh            float           6 gk_tanh_$({0}, machine)
Sigmoid         float           6 gk_logistic_$({0}, machine)
Softplus        float          26 gk_softplus_$({0}, machine)
Softsign        float           4 {0} / (1 + fabs@({0}))
Mish            float          32 {0} * gk_tanh_$(gk_softplus_$({0}, machine), machine)
Sin             f32            14 gk_sin_$({0}, machine)
Sin             f64           100 gk_sin_$({0}, machine)
Cos             f32            14 gk_cos_$({0}, machine)
Cos             f64           100 gk_cos_$({0}, machine)
Tan             f32           144 tanf({0})
Asin            f32             7 gk_asin_f32({0}, machine)
Acos            f32             8 gk_acos_f32({0}, machine)
Atan            f32             8 gk_atan_f32({0}, machine)
Sinh            f32           207 sinhf({0})
Cosh            f32           107 coshf({0})
Asinh           f32           255 asinhf({0})
Acosh           f32           105 acoshf({0})
Atanh           f32           285 atanhf({0})
Relu            float           1 {0} < 0 ? 0 : {0}
Relu            i32,i64,i8      1 gk_max_$({0}, 0)
PRelu           float,i32,i64   1 {0} < 0 ? {1} * {0} : {0}
LeakyRelu       float          16 {0} < 0 ? {alpha} * {0} : {0}
ThresholdedRelu float          16 {0} > {alpha} ? {0} : 0
Elu             float          16 {0} < 0 ? {alpha} * gk_any_expm1_$({0}, machine) : {0}
Selu            float          16 {gamma} * ({0} > 0 ? {0} : {alpha} * gk_any_expm1_$({0}, machine))
Celu            float          16 ({0} > 0 ? {0} : 0) + \
({0} > 0 ? 0 : {alpha} * gk_any_expm1_$({0} / {alpha}, machine))
Not             bool            1 !{0}
And             bool            1 {0} & {1}
Or              bool            1 {0} | {1}
Xor             bool            1 {0} ^ {1}
BitwiseNot      integer         1 ~{0}
BitwiseAnd      integer         1 {0} & {1}
BitwiseOr       integer         1 {0} | {1}
BitwiseXor      integer         1 {0} ^ {1}
Equal           any             1 {0} == {1}
Less            number          1 {0} < {1}
LessOrEqual     number          1 {0} <= {1}
Greater         number          1 {0} > {1}
GreaterOrEqual  number          1 {0} >= {1}
IsNaN           float           1 {0} != {0}
"""
_ATTRIBUTES: dict[str, dict[str, float]] = {
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "Celu": {"alpha": 1.0},
    "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
}
_LARGEST: dict[int, float] = {
    TensorProto.FLOAT: float(np.finfo(np.float32).max),
    TensorProto.FLOAT16: float(np.finfo(np.float16).max),
    TensorProto.DOUBLE: float(np.finfo(np.float64).max),
}


@dataclass(frozen=True)
class Call:
    """The context in which a rule computes an element: steps, node, type of the result, and
    opset.
    """

    steps: Steps
    node: onnx.NodeProto
    ctype: CType
    dtype: int
    opset: int

    def op(
        self, template: str, *arguments: Step, cost: int = 1, types: Collection[str] = _TYPES["any"]
    ) -> Step:
        """A step of the result's type. Raises Unsupported if the C type of the first argument is
        not among `types`.
        """
        if arguments[0].ctype.name not in types:
            raise Unsupported(f"no kernel computes {self.node.op_type} of such elements")
        return self.steps.op(self.ctype, template, *arguments, cost=cost)

    def constant(self, value: float) -> Step:
        """A number of the result's type."""
        return self.steps.literal(self.ctype, value)

    def number(self, name: str, default: float) -> Step:
        """A float attribute. Raises Unsupported if it is not finite, or if it is 0 and the formula
        divides by it.
        """
        value = float(np.float32(attribute(self.node, name, default)))
        if not math.isfinite(value) or (self.node.op_type == "Celu" and not value):
            raise Unsupported(f"no kernel computes {self.node.op_type} where {name} is {value:g}")
        return self.steps.scalar(self.ctype, value)


Rule = Callable[..., Step]  # takes a Call, and a step for each input (None if the input is omitted)


def _formula_rule(op: str, formulas: Mapping[str, tuple[int, str]]) -> Rule:
    """The rule of an operator. `formulas` maps the name of a C type to cost and formula."""
    defaults = _ATTRIBUTES.get(op, {})

    def rule(call: Call, *arguments: Step) -> Step:
        numbers = [call.number(name, default) for name, default in defaults.items()]
        cost, text = formulas.get(arguments[0].ctype.name, (0, ""))
        return call.op(text, *arguments, *numbers, cost=cost, types=formulas)

    return rule


def _folded(rule: Rule) -> Rule:
    """The rule for any number of inputs: `rule`, which takes two inputs, applied from left to
    right.
    """

    def folded(call: Call, *arguments: Step) -> Step:
        first, *rest = arguments
        result = first if rest else call.op("{0}", first)
        for argument in rest:
            result = rule(call, result, argument)
        return result

    return folded


def _rules() -> dict[str, Rule]:
    """The rules of all operators that have formulas."""
    formulas: dict[str, dict[str, tuple[int, str]]] = {}
    for op, types, cost, text in (line.split(None, 3) for line in _FORMULAS.strip().splitlines()):
        for number, name in enumerate(_ATTRIBUTES.get(op, {}), 1):
            text = text.replace(f"{{{name}}}", f"{{{number}}}")
        for name in types.split(","):
            formulas.setdefault(op, {}).update(
                dict.fromkeys(_TYPES.get(name, (name,)), (int(cost), text))
            )
    return {op: _formula_rule(op, own) for op, own in formulas.items()}


def _extreme(name: str) -> Rule:
    """The maximum or minimum. Of 0 and −0, it takes the same one as onnxruntime: the constant if
    there is one, otherwise the second input. For float16, onnxruntime takes the other one.
    """

    def rule(call: Call, x: Step, y: Step) -> Step:
        is_first = (x.constant is not None and y.constant is None) != _is_half(call.ctype)
        operands = (y, x) if is_first else (x, y)  # of two zeros, the C function takes its second
        return call.op(f"gk_{name}_$({{0}}, {{1}})", *operands, cost=2, types=_NUMBERS)

    return rule


def _is_half(ctype: CType) -> bool:
    return ctype.stored == "uint16_t"


def _sign(call: Call, x: Step) -> Step:
    """The sign. As in onnxruntime, the sign of NaN is NaN; in float16, it is 0."""
    if x.ctype.is_float and not _is_half(call.ctype):
        return call.op("gk_sign_$({0})", x, cost=2)
    return call.op("({0} > 0) - ({0} < 0)", x, cost=2, types=_NUMBERS)


def _where(call: Call, condition: Step, x: Step, y: Step) -> Step:
    """One of two operands, chosen by a condition. As in onnxruntime, −0 becomes 0 if it comes from
    the first operand.
    """
    chosen = "{1} + 0" if call.ctype.is_float else "{1}"
    return call.op(f"{{0}} ? {chosen} : {{2}}", condition, x, y, types=_TYPES["bool"])


def _div(call: Call, x: Step, y: Step) -> Step:
    """The quotient. Multiplying by the inverse would be faster, but then x / x would not always be
    1.
    """
    if not x.ctype.is_float:
        return call.op("gk_div_$({0}, {1})", x, y, cost=30, types=_INTEGERS)
    inverse = _exact_inverse(y)
    if inverse is not None:
        return call.op("{0} * {1}", x, call.steps.scalar(call.ctype, inverse))
    return call.op("{0} / {1}", x, y, cost=4)


def _exact_inverse(y: Step) -> float | None:
    """The inverse of a constant that is a power of two: multiplying by it gives exactly the
    quotient. `None` for any other number.
    """
    value = _number(y)
    if not value or not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return None
    return 1 / value if 2.0**-100 < abs(value) < 2.0**100 else None


def _number(step: Step) -> float | None:
    """The value of a literal. `None` if the step is not a literal, or if it is NaN or infinite."""
    text = (step.constant or "").removeprefix("INT64_C(").rstrip("f)")
    if "x" in text:
        return float.fromhex(text)
    return float(text) if text.lstrip("-").isdigit() else None


def _mean(call: Call, *arguments: Step) -> Step:
    return call.op(
        "{0} / {1}", _RULES["Sum"](call, *arguments), call.constant(len(arguments)), cost=4
    )


def _cast(call: Call, x: Step) -> Step:
    to = ctype_of(call.dtype)
    if to.name == x.ctype.name:
        return _nearest_half(call, x) if call.dtype == TensorProto.FLOAT16 else call.op("{0}", x)
    if to is BOOL:
        return call.op("{0} != 0", x)
    if x.ctype.is_float and not to.is_float:
        whole = (
            f"gk_int64_{x.ctype.name}({{0}})"
            if to.name == "i64"
            else f"gk_int32_{x.ctype.name}({{0}})"
        )
        return call.op(f"({to.local}){whole}", x, cost=3)
    if call.dtype == TensorProto.FLOAT16:
        return _nearest_half(call, x)
    return call.op(f"({to.local}){{0}}", x)


def _nearest_half(call: Call, x: Step) -> Step:
    """The nearest float16 value, stored as a float."""
    return call.steps.op(ctype_of(TensorProto.FLOAT16), "gk_round_to_half((float){0})", x, cost=5)


def _clip(call: Call, x: Step, low: Step | None = None, high: Step | None = None) -> Step:
    if call.opset < 11:
        low = call.number("min", -_LARGEST[TensorProto.FLOAT])
        high = call.number("max", _LARGEST[TensorProto.FLOAT])
    elif call.dtype in _LARGEST:  # if a bound is omitted, onnxruntime limits x to finite numbers
        low = low or call.constant(-_LARGEST[call.dtype])
        high = high or call.constant(_LARGEST[call.dtype])
    return _bounded(call, call.op("{0}", x), low, high)


def _bounded(call: Call, x: Step, low: Step | None, high: Step | None) -> Step:
    """x limited to the bounds (None: no bound). NaN stays NaN."""
    if low is not None:
        x = call.op("{0} < {1} ? {1} : {0}", x, low)
    if high is not None:
        x = call.op("{0} > {1} ? {1} : {0}", x, high)
    return x


_NOT_IN_FLOAT = (
    "f64",
    "i32",
    "i64",
    "u32",
    "u64",
)  # float32 would round these exponents, which may change a sign


def _pow(call: Call, x: Step, power: Step) -> Step:
    simple = {1.0: "{0}", 2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}"}
    number = _number(power)
    if number is not None:
        if number in simple and call.ctype.name in ("f32", "f64", "i32", "i64"):
            return call.op(simple[number], x)
        if (
            number == 0.5 and call.ctype.is_float
        ):  # unlike sqrt, pow makes +0 from −0, and +infinity from −infinity
            return call.op("{0} == -INFINITY ? INFINITY : sqrt@({0} + 0)", x, cost=5)
    if call.ctype.name == "f32" and power.ctype.name not in _NOT_IN_FLOAT:
        return call.op("powf({0}, (float){1})", x, power, cost=100)
    value = call.steps.op(
        ctype_of(TensorProto.DOUBLE), "pow((double){0}, (double){1})", x, power, cost=200
    )
    if call.ctype.is_float:
        return value if call.ctype.name == "f64" else call.op("(float){0}", value)
    if call.ctype.name not in ("i32", "i64"):
        raise Unsupported("no kernel computes Pow of such elements")
    return call.op(f"gk_int{call.ctype.name[1:]}_f64({{0}})", value)


def _mod(call: Call, x: Step, y: Step) -> Step:
    as_c = int(attribute(call.node, "fmod", 0))
    if call.ctype.is_float:
        return call.op("fmod@({0}, {1})" if as_c else "gk_floor_mod_$({0}, {1})", x, y, cost=60)
    return call.op(
        "gk_rem_$({0}, {1})" if as_c else "gk_mod_$({0}, {1})", x, y, cost=30, types=_INTEGERS
    )


def _is_infinite(call: Call, x: Step) -> Step:
    positive = attribute(call.node, "detect_positive", 1)
    negative = attribute(call.node, "detect_negative", 1)
    tests = ["{0} == INFINITY"] * bool(positive) + ["{0} == -INFINITY"] * bool(negative)
    if _is_half(x.ctype):  # a float that is finite may be too large for float16
        x = _nearest_half(call, x)
    return call.op(" || ".join(tests) or "0 * ({0} == 0)", x)


def _gelu(call: Call, x: Step) -> Step:
    one = call.constant(1.0)
    half = call.constant(0.5)
    if attribute(call.node, "approximate") == "tanh":
        scale = call.constant(math.sqrt(2 / math.pi))
        cubic = call.constant(0.044715)
        inner = call.op("{1} * ({0} + {2} * {0} * {0} * {0})", x, scale, cubic, cost=4)
        factor = call.op("gk_tanh_$({0}, machine)", inner, cost=6, types=_FLOATS)
    else:
        inner = call.op("{0} * {1}", x, call.constant(math.sqrt(0.5)))
        factor = call.op("gk_erf_$({0}, machine)", inner, cost=7, types=_FLOATS)
    return call.op("{2} * {0} * ({3} + {1})", x, factor, half, one, cost=3)


def _hard_sigmoid(call: Call, x: Step, alpha: Step | None = None, beta: Step | None = None) -> Step:
    line = call.op(
        "{0} * {1} + {2}", x, alpha or call.number("alpha", 0.2), beta or call.number("beta", 0.5)
    )
    return _bounded(call, line, call.constant(0.0), call.constant(1.0))


def _hard_swish(call: Call, x: Step) -> Step:
    return call.op("{0} * {1}", x, _hard_sigmoid(call, x, call.constant(1 / 6), call.constant(0.5)))


def _swish(call: Call, x: Step) -> Step:
    scaled = call.op("{0} * {1}", x, call.number("alpha", 1.0))
    return call.op(
        "{0} * {1}", x, call.op("gk_sigmoid_$({0}, machine)", scaled, cost=6, types=_FLOATS)
    )


_BY_FORMULA = _rules()
_RULES = _BY_FORMULA | {
    "Sum": _folded(_BY_FORMULA["Sum"]),
    "Max": _folded(_extreme("max")),
    "Min": _folded(_extreme("min")),
    "Sign": _sign,
    "Where": _where,
    "Div": _div,
    "Mean": _mean,
    "Pow": _pow,
    "Mod": _mod,
    "Cast": _cast,
    "Clip": _clip,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Swish": _swish,
    "IsInf": _is_infinite,
}


def _lowered(rule: Rule) -> OperatorLowering:
    def element(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
        info = lowering.info
        name = node.output[k]
        arguments = [
            lowering.broadcast(value, info.shapes[name], at) if value else None
            for value in node.input
        ]
        call = Call(lowering.steps, node, info.ctype(name), info.dtype(name), info.area.opset)
        return rule(call, *arguments)

    return OperatorLowering(_shapes, element)


def _shapes(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    return [broadcast_shape(info, [info.shapes[name] for name in node.input if name])] * len(
        node.output
    )


ELEMENTWISE = {op: _lowered(rule) for op, rule in _RULES.items()}
