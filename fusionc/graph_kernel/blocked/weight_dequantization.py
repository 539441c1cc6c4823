"""Weights that an area computes from constant integers or 8-bit floats. The operators that compute
them are a DequantizeLinear, or a Cast, a Sub or Add, and a Mul. A kernel computes such weights
once, when a session creates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import onnx
from onnx import TensorProto

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.lower.area_info import attribute

_TYPES = frozenset(
    {
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.INT32,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
    }
)
MOST_PARTS = 6  # as GB_PARTS of c/blocked_program.h
_READERS = frozenset({"Conv", "FusedConv", "ConvTranspose", "MatMul", "Gemm", "FusedGemm"})
_PLACES = (1, 2)  # the indices of weights and bias among the inputs of convolutions and products
Sizes = tuple[int | str, ...]
Strides = tuple[int, ...]


@dataclass(frozen=True)
class DequantizedWeights:
    """Float32 weights: (integer − zero point) · scale. `packed`, `scale` and `zero` are names of
    inputs of the area. The strides are the distances between two scales, or two zero points, along
    each of `parts`.
    """

    packed: str
    packed_type: int  # of TensorProto, as is `zero_type`
    shape: tuple[int, ...]
    parts: tuple[int, ...]  # the shape, but an axis that is divided into blocks counts as two axes
    scale: str = ""
    scale_strides: Strides = ()
    zero: str = ""  # "" if all zero points are 0
    zero_type: int = TensorProto.FLOAT
    zero_strides: Strides = ()
    is_zero_added: bool = False  # whether the zero point is added instead of subtracted


def with_dequantized_weights(
    area: Area,
) -> tuple[Area, list[int], Mapping[str, DequantizedWeights]]:
    """The area without the operators that compute weights; for each remaining operator, its index
    in the original area; and the weights by name.

    A program can compute weights from the same integers in only one way. If the area also computes
    others from these integers in another way, the operators for the others stay.
    """
    reader = _WeightReader(area)
    weights = dict[str, DequantizedWeights]()
    of_integers = dict[str, DequantizedWeights]()
    removed = set[str]()  # the results of the operators to remove
    for name in filter(reader.is_computed, reader.weight_names()):
        chain = reader.chain(name)
        computed = reader.computed(chain)
        if computed is not None and of_integers.setdefault(computed.packed, computed) == computed:
            weights[name] = computed
            removed.update(node.output[0] for node in chain)
    kept = [place for place, node in enumerate(area.nodes) if node.output[0] not in removed]
    return replace(area, nodes=tuple(area.nodes[place] for place in kept)), kept, weights


@dataclass
class _WeightReader:
    """Reads the operators of an area that compute weights."""

    area: Area
    _makers: dict[str, onnx.NodeProto] = field(init=False)  # the name of a result → its operator

    def __post_init__(self) -> None:
        self._makers = {name: node for node in self.area.nodes for name in node.output}

    def weight_names(self) -> list[str]:
        """The names of weights and biases of operators that multiply float32 numbers."""
        return [
            node.input[place]
            for node in self.area.nodes
            if node.op_type in _READERS and not self._is_dequantized(node.input[0])
            for place in _PLACES
            if place < len(node.input)
        ]

    def is_computed(self, name: str) -> bool:
        """Whether an operator of the area computes a value."""
        return name in self._makers

    def _is_dequantized(self, image: str) -> bool:
        """Whether an image is dequantized from integers. If so, the operator that reads it may
        compute in integers.
        """
        return image in self._makers and self._makers[image].op_type == "DequantizeLinear"

    def chain(self, name: str) -> list[onnx.NodeProto]:
        """The operators that compute weights, in order. Each reads the result of the one before."""
        chain = list[onnx.NodeProto]()
        names = [name]
        while len(names) == 1:
            chain.append(self._makers[names[0]])
            names = list(filter(self.is_computed, chain[-1].input))
        return chain[::-1]

    def computed(self, chain: list[onnx.NodeProto]) -> DequantizedWeights | None:
        """The weights that these operators compute. `None` if a kernel cannot compute them."""
        first, *others = chain
        weights = self._begun(first)
        for node in others:
            step = None if node.domain else _STEPS.get(node.op_type)
            if weights is None or step is None:
                return None
            weights = step(self, node, weights)
        return weights if weights is not None and weights.scale else None

    def _begun(self, node: onnx.NodeProto) -> DequantizedWeights | None:
        weights = None if node.domain else self._packed(node.input[0])
        if weights is not None and node.op_type == "DequantizeLinear":
            return self._dequantized(node, weights)
        is_cast = node.op_type == "Cast" and attribute(node, "to") == TensorProto.FLOAT
        return weights if is_cast else None

    def _packed(self, name: str) -> DequantizedWeights | None:
        """Weights that are integers without a scale. `None` if the value is not an input of the
        area, or has another type.
        """
        if self._dtype(name) not in _TYPES:
            return None
        sizes = self._sizes(name)
        shape = tuple(size for size in sizes if isinstance(size, int))
        is_fit = shape == sizes and len(shape) <= MOST_PARTS and 0 not in shape
        return DequantizedWeights(name, self._dtype(name), shape, shape) if is_fit else None

    def _dequantized(
        self, node: onnx.NodeProto, weights: DequantizedWeights
    ) -> DequantizedWeights | None:
        _, scale, zero = [*node.input, ""][:3]
        if self._dtype(scale) != TensorProto.FLOAT or (zero and not self._dtype(zero)):
            return None
        if attribute(node, "output_dtype", 0) not in (0, TensorProto.FLOAT):
            return None
        axis = int(attribute(node, "axis", 1)) % max(len(weights.shape), 1)
        parts = _parts(weights.shape, axis, int(attribute(node, "block_size", 0)))
        strides = _strides_of_scales(self._sizes(scale), weights.shape, parts, axis)
        if strides is None or len(parts) > MOST_PARTS:
            return None
        scaled = replace(weights, parts=parts, scale=scale, scale_strides=strides)
        if not zero:
            return scaled
        return replace(scaled, zero=zero, zero_type=self._dtype(zero), zero_strides=strides)

    def _shifted(
        self, node: onnx.NodeProto, weights: DequantizedWeights
    ) -> DequantizedWeights | None:
        is_added = node.op_type == "Add"
        zero = self._constant(node) if is_added else node.input[1]
        strides = self._broadcast(zero, weights)
        if strides is None or weights.zero or weights.scale:
            return None
        return replace(weights, zero=zero, zero_strides=strides, is_zero_added=is_added)

    def _scaled(
        self, node: onnx.NodeProto, weights: DequantizedWeights
    ) -> DequantizedWeights | None:
        scale = self._constant(node)
        strides = self._broadcast(scale, weights)
        if strides is None or weights.scale:
            return None
        return replace(weights, scale=scale, scale_strides=strides)

    def _constant(self, node: onnx.NodeProto) -> str:
        """The operand of a sum or product that no operator of the area computes."""
        return next(str(name) for name in node.input if not self.is_computed(name))

    def _reshaped(
        self, node: onnx.NodeProto, weights: DequantizedWeights
    ) -> DequantizedWeights | None:
        sizes = self.area.constants.get(node.input[1], np.zeros(1))
        shape = tuple(int(size) for size in sizes)
        if min(shape, default=1) < 1 or prod(shape) != prod(weights.shape):
            return None
        if weights.scale or weights.zero:
            return replace(weights, shape=shape)
        return replace(weights, shape=shape, parts=shape) if len(shape) <= MOST_PARTS else None

    def _dtype(self, name: str) -> int:
        """The element type of an input of the area. 0 for any other value."""
        return self.area.values[name].dtype if name in self.area.inputs else 0

    def _sizes(self, name: str) -> Sizes:
        return self.area.values[name].shape

    def _broadcast(self, name: str, weights: DequantizedWeights) -> Strides | None:
        """The strides of a float32 value that is broadcast to the shape of weights. `None` if the
        value is not an input of the area, or if broadcasting would enlarge the weights.
        """
        if weights.shape != weights.parts or self._dtype(name) != TensorProto.FLOAT:
            return None
        sizes = self._sizes(name)
        numbers = (1,) * (len(weights.parts) - len(sizes)) + sizes
        pairs = list(zip(numbers, weights.parts, strict=False))
        is_fit = len(numbers) == len(weights.parts) and all(n in (1, part) for n, part in pairs)
        return _strides(tuple(n for n in numbers if isinstance(n, int))) if is_fit else None


_Step = Callable[[_WeightReader, onnx.NodeProto, DequantizedWeights], DequantizedWeights | None]
_STEPS: Mapping[str, _Step] = {
    "Add": _WeightReader._shifted,
    "Sub": _WeightReader._shifted,
    "Mul": _WeightReader._scaled,
    "Reshape": _WeightReader._reshaped,
}


def _parts(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """A shape in which two axes replace one: the number of blocks of `size` elements, and `size`.
    The last block may be incomplete. If `size` is 0, the shape is unchanged.
    """
    if not size:
        return shape
    return (*shape[:axis], -(-shape[axis] // size), size, *shape[axis + 1 :])


def _strides_of_scales(
    sizes: Sizes, shape: tuple[int, ...], parts: tuple[int, ...], axis: int
) -> Strides | None:
    """The strides of the scales of a DequantizeLinear. `None` if their number is wrong, or if they
    do not divide the axis into equal blocks.
    """
    if len(parts) > len(shape):
        is_fit = prod(parts) == prod(shape) and sizes == (*parts[: axis + 1], *parts[axis + 2 :])
        return _strides((*parts[: axis + 1], 1, *parts[axis + 2 :])) if is_fit else None
    if sizes in ((), (1,)):
        return (0,) * len(parts)
    is_fit = sizes == shape[axis : axis + 1]
    return tuple(int(place == axis) for place in range(len(parts))) if is_fit else None


def _strides(sizes: tuple[int, ...]) -> Strides:
    """The strides of a tensor. They are 0 along axes of one element."""
    return tuple(prod(sizes[axis + 1 :]) if size > 1 else 0 for axis, size in enumerate(sizes))
