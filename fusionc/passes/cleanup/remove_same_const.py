from collections.abc import Callable, Iterable, Iterator
from weakref import WeakKeyDictionary

from onnx import TensorProto

from fusionc.model.graph import Constant, Edge, Graph
from fusionc.model.tensors import element_digest
from fusionc.operators.facts import Trait, places_of
from fusionc.passes._shared.constants import bits_of
from fusionc.protos import is_external
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape

# onnxruntime names the new tensor after the old one: a constant that two operators share is
# replaced twice, and the model then refused ("Attempt to replace the existing tensor").
_CHANGED_TO_UNSIGNED = places_of(Trait.UNSIGNED)
_END = 64  # elements at either end, which distinguish most constants
_ENDS: WeakKeyDictionary[Constant, tuple[bytes, bytes]] = WeakKeyDictionary()  # digests, read once
_LARGEST = 64 << 20  # bytes; larger ones are compared by their place in the external file only


def _place(constant: Constant) -> tuple[tuple[str, str], ...]:
    """File, offset and length of a large constant in an external file; else nothing."""
    data = constant.data
    if constant.nbytes <= _LARGEST or not isinstance(data, TensorProto) or not is_external(data):
        return ()
    return tuple(sorted((e.key, e.value) for e in data.external_data))


def _sample(constant: Constant) -> tuple[object, ...]:
    if place := _place(constant):
        return (place,)
    if constant not in _ENDS:
        flat = bits_of(constant).reshape(-1)
        _ENDS[constant] = element_digest(flat[:_END]), element_digest(flat[-_END:])
    return _ENDS[constant]


def _hash(constant: Constant) -> object:
    if place := _place(constant):
        return place
    return element_digest(bits_of(constant))


def _groups(
    constants: Iterable[Constant], key: Callable[[Constant], object]
) -> Iterator[list[Constant]]:
    """Groups of two or more constants with equal keys, in order."""
    groups: dict[object, list[Constant]] = {}
    for constant in constants:
        groups.setdefault(key(constant), []).append(constant)
    return (group for group in groups.values() if len(group) > 1)


def _is_changed_at_load(constant: Constant) -> bool:
    """Whether onnxruntime may replace a constant at load, once for each operator that reads it."""
    if constant.elem_type != TensorProto.INT8:
        return False
    users = ((user, _CHANGED_TO_UNSIGNED.get(user.operator)) for user in constant.outputs)
    return any(
        constant in (user.inputs[at] for at in places or () if at < len(user.inputs))
        for user, places in users
    )


def _find(graph: Graph) -> Iterator[Match]:
    candidates = (c for c in graph.constants() if c.is_used and not _is_changed_at_load(c))
    for alike in _groups(candidates, lambda c: (c.elem_type, c.shape)):
        for similar in _groups(alike, _sample):
            for kept, *others in _groups(similar, _hash):
                for constant in others:
                    if constant.is_used and not constant.is_pinned:
                        yield Match(
                            graph, outputs=(constant,), captures={"kept": kept}, drops=(constant,)
                        )


class RemoveSameConstPass(Pass):
    """Equal constants become one.

    before   two initializers of equal type, dimensions and elements
    after    one of them, used in both places
    refuses  a constant that is a graph output
    never    initializers that the caller may override, or that an annotation or training
             information names; int8 weights and zero points of quantized operators: in some models
             onnxruntime converts them to uint8 once for each operator, and then cannot load a model
             in which two operators share one
    algebra  equal bits are equal
    source   CANN's RemoveSameConstPass and ConstantFuseSamePass
    """

    aliases = ("ConstantFuseSamePass",)
    patterns = (Pattern("SameConstant", find=_find),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        kept: Edge = m.kept
        return kept
