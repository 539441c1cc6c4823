from collections.abc import Callable, Iterable, Iterator
from weakref import WeakKeyDictionary

from onnx import TensorProto

from fusionc.model.graph import Constant, Edge, Graph
from fusionc.model.tensors import element_digest
from fusionc.operators.facts import Trait, places_of
from fusionc.passes._shared.constants import bits_of
from fusionc.protos import is_external
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape

# When onnxruntime loads a model, it may convert int8 constants in these inputs to uint8. It names
# the converted tensor after the original one. If two operators share a constant, onnxruntime
# converts it twice and rejects the model ("Attempt to replace the existing tensor").
_CHANGED_TO_UNSIGNED = places_of(Trait.UNSIGNED)
_SAMPLE_LENGTH = 64  # elements at each end of a constant, which distinguish most constants
_SAMPLES: WeakKeyDictionary[Constant, tuple[bytes, bytes]] = (
    WeakKeyDictionary()
)  # digests of both ends
_MAX_READ_BYTES = 64 << 20  # of larger external constants, only the file position is compared


def _file_position(constant: Constant) -> tuple[tuple[str, str], ...]:
    """File, offset and length of a large constant in an external file; empty for others."""
    data = constant.data
    if (
        constant.nbytes <= _MAX_READ_BYTES
        or not isinstance(data, TensorProto)
        or not is_external(data)
    ):
        return ()
    return tuple(sorted((e.key, e.value) for e in data.external_data))


def _sample(constant: Constant) -> tuple[object, ...]:
    if position := _file_position(constant):
        return (position,)
    if constant not in _SAMPLES:
        flat = bits_of(constant).reshape(-1)
        _SAMPLES[constant] = (
            element_digest(flat[:_SAMPLE_LENGTH]),
            element_digest(flat[-_SAMPLE_LENGTH:]),
        )
    return _SAMPLES[constant]


def _content_key(constant: Constant) -> object:
    if position := _file_position(constant):
        return position
    return element_digest(bits_of(constant))


def _groups(
    constants: Iterable[Constant], key: Callable[[Constant], object]
) -> Iterator[list[Constant]]:
    """The constants, grouped by equal keys, in order."""
    groups: dict[object, list[Constant]] = {}
    for constant in constants:
        groups.setdefault(key(constant), []).append(constant)
    yield from groups.values()


def _is_changed_at_load(constant: Constant) -> bool:
    """Whether onnxruntime may convert a constant when it loads the model, once for each user."""
    if constant.elem_type != TensorProto.INT8:
        return False
    users = ((user, _CHANGED_TO_UNSIGNED.get(user.operator)) for user in constant.outputs)
    return any(
        constant
        in (user.inputs[position] for position in places or () if position < len(user.inputs))
        for user, places in users
    )


def _find(graph: Graph) -> Iterator[Match | Miss]:
    candidates = list[Constant]()
    for constant in graph.constants():
        if not constant.is_used:
            yield Miss(constant, "it is not used")
        elif _is_changed_at_load(constant):
            yield Miss(constant, "onnxruntime may convert it to uint8, once for each operator")
        else:
            candidates.append(constant)
    for same_type in _groups(candidates, lambda c: (c.elem_type, c.shape)):
        if len(same_type) == 1:
            yield Miss(same_type[0], "no other constant has its type and shape")
            continue
        for same_sample in _groups(same_type, _sample):
            # compute the digest of all elements only if there is a constant to compare it with
            equal = _groups(same_sample, _content_key) if same_sample[1:] else [same_sample]
            for kept, *others in equal:
                yield from _merged(kept, others)


def _merged(kept: Constant, others: list[Constant]) -> Iterator[Match | Miss]:
    """A match for each constant in `others`: all of them equal the constant `kept`, which stays."""
    if not others:
        yield Miss(kept, "no other constant of its type and shape has its elements")
    for constant in others:
        if constant.is_pinned:
            yield Miss(constant, "an annotation or training information names it")
        elif constant.is_used:
            yield Match(kept.graph, outputs=(constant,), captures={"kept": kept}, drops=(constant,))


class RemoveSameConstPass(Pass):
    """Equal constants become one.

    before   two initializers of equal type, dimensions and elements
    after    one of them, used in both places
    refuses  a constant that is a graph output
    never    initializers that the caller may override, or that an annotation or training
             information names; int8 weights and zero points of quantized operators. In some models,
             onnxruntime converts these constants to uint8 once for each operator, and cannot load a
             model in which two operators share such a constant
    algebra  equal bits are equal
    source   CANN's RemoveSameConstPass and ConstantFuseSamePass
    """

    aliases = ("ConstantFuseSamePass",)
    patterns = (Pattern("SameConstant", find=_find),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        kept: Edge = m.kept
        return kept
