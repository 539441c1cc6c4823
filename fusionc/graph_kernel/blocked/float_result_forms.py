"""Rewrites quantized operators with a float32 result as groups that an area can read:
DequantizeLinear, then the operator. Some passes and onnxruntime had rewritten such groups into
other forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from fusionc.graph_kernel.area import Area, AreaValue
from fusionc.graph_kernel.blocked.area_rewriter import AreaRewriter
from fusionc.graph_kernel.blocked.integer_forms import POINTWISE
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT

_CHANNELS_LAST = [0, 2, 3, 1]
_CHANNELS_SECOND = [0, 3, 1, 2]
_BEFORE = ("Transpose", "Slice", "Cast")
_SLICED = ("starts", "ends", "axes", "steps")  # the inputs of a Slice, except the sliced value
_IMAGE_AXES = [1, 2]  # the axes of rows and columns, if the channels are the last axis
# activation of a FusedConv → the attributes for its parameters, in the operator for the activation
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Clip": ("min", "max"),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Sigmoid": (),
    "Tanh": (),
}

_PRODUCT = ("MatMulIntegerToFloat",)
_Placed = tuple[int, onnx.NodeProto]  # the index of the original operator, and the new operator


def with_plain_groups(area: Area) -> tuple[Area, list[int]]:
    """The area with these forms rewritten. Also, for each operator of the result, the index of the
    original operator.

    Products between Transposes become convolutions. A FusedConv of dequantized integers becomes a
    Conv, a sum and an activation. Weights that are cast and scaled become dequantizations. A
    MaxPool before a quantization moves after it.
    """
    if not any(node.op_type in ("DequantizeLinear", *_PRODUCT) for node in area.nodes):
        return area, list(range(len(area.nodes)))
    forms = _Forms(area)
    placed = list(enumerate(area.nodes))
    for rewrite in (
        forms.dequantized_weights,
        forms.convolutions,
        forms.parts,
        forms.quantized_pools,
    ):
        placed = list(rewrite(placed))
    placed = forms.without_unread(placed)
    nodes = tuple(node for _, node in placed)
    known = replace(area, nodes=nodes, values=forms.values, constants=forms.constants)
    return known, [place for place, _ in placed]


@dataclass(frozen=True)
class _Rows:
    """The pixels of an image of integers, as rows: the channels were moved to the last axis.
    `strides` are the distances between the rows, and between the columns, that are read.
    """

    image: str
    strides: tuple[int, int] = (1, 1)
    is_turned: bool = False  # whether the channels are the last axis of `image` itself


class _Forms(AreaRewriter):
    def dequantized_weights(self, placed: Sequence[_Placed]) -> Iterator[_Placed]:
        """Replace a Cast of 8-bit weights, and the multiplication by a scale for each output
        channel, by a dequantization.
        """
        for place, node in placed:
            a, b = node.input if node.op_type == "Mul" else ("", "")
            cast = self._makers.get(a)
            scale = self._area.constants.get(b)
            is_cast = cast is not None and cast.op_type == "Cast"
            if (
                cast is None
                or not is_cast
                or scale is None
                or scale.size != max(scale.shape[:1], default=1)
            ):
                yield place, node
                continue
            self.constants[f"{b}/scale"] = scale.ravel()
            inputs = [cast.input[0], f"{b}/scale"]
            yield place, helper.make_node("DequantizeLinear", inputs, node.output, axis=0)

    def convolutions(self, placed: Sequence[_Placed]) -> Iterator[_Placed]:
        """Replace products of an image's pixels and a matrix by convolutions. Before such a
        product, a Transpose moves the image's channels to the last axis; after it, or after a sum,
        a Transpose moves them back. If another operator reads the product, a new Transpose gives it
        the channels as the last axis.
        """
        images = dict[str, str]()  # the result with channels last → the result as an image
        for place, node in placed:
            if node.op_type == "Transpose" and node.input[0] in images:
                continue
            rows = self._rows_of(node)
            is_sum = node.op_type == "Add" and images.keys() >= set(node.input)
            image = self._image_of(node.output[0]) if rows is not None or is_sum else ""
            if image:
                images[node.output[0]] = image
            if rows is not None:
                yield from ((place, part) for part in self._convolution(node, rows, image))
            elif image:
                yield place, helper.make_node("Add", [images[x] for x in node.input], [image])
            else:
                yield place, node

    def _convolution(
        self, product: onnx.NodeProto, rows: _Rows, image: str
    ) -> Iterator[onnx.NodeProto]:
        """The convolution that computes a product, with the Transposes that it needs."""
        if rows.is_turned:
            turned = self._turned(rows.image)
            yield helper.make_node("Transpose", [rows.image], [turned], perm=_CHANNELS_SECOND)
            rows = replace(rows, image=turned)
        made = image or self._turned(product.output[0])
        inputs = [rows.image, *product.input[1:]]
        yield helper.make_node(POINTWISE, inputs, [made], domain=MICROSOFT, strides=rows.strides)
        if not image:
            yield helper.make_node("Transpose", [made], product.output, perm=_CHANNELS_LAST)

    def _image_of(self, name: str) -> str:
        """The name of the image that replaces the rows `name`: the result of a Transpose that reads
        the rows, or a new value if a sum reads them. "" if another operator reads them.
        """
        reader = self._only_reader(name)
        if reader is None:
            return ""
        if _is_transpose(reader, _CHANNELS_SECOND):
            return str(reader.output[0])
        return self._turned(name) if self._is_turned_sum(reader) else ""

    def _is_turned_sum(self, total: onnx.NodeProto) -> bool:
        """Whether an operator is a sum of products, and a Transpose moves the sum's channels
        back.
        """
        reader = self._only_reader(total.output[0]) if total.op_type == "Add" else None
        return (
            reader is not None
            and _is_transpose(reader, _CHANNELS_SECOND)
            and all(self._is_product_for_sum(name) for name in total.input)
        )

    def _is_product_for_sum(self, name: str) -> bool:
        product = self._makers.get(name)
        is_of_rows = product is not None and self._rows_of(product) is not None
        return is_of_rows and self._only_reader(name) is not None

    def _rows_of(self, node: onnx.NodeProto) -> _Rows | None:
        """The pixels that an operator multiplies by a matrix. `None` for other operators."""
        return self._rows(node.input[0]) if node.op_type in _PRODUCT else None

    def _turned(self, name: str) -> str:
        """Declare the image form of a value: its channels, which are last, become the second
        axis.
        """
        rows = self.values[name]
        image = f"{name}/image"
        shape = tuple(rows.shape[axis] for axis in _CHANNELS_SECOND)
        self.values[image] = AreaValue(image, rows.dtype, shape)
        return image

    def _rows(self, name: str) -> _Rows | None:
        """The image whose pixels are these rows. `None` if the rows are not the pixels of an
        image.
        """
        node = self._makers.get(name)
        if node is None:
            return None
        if _is_transpose(node, _CHANNELS_LAST):
            return _Rows(node.input[0])
        strides = self._strides(node) if node.op_type == "Slice" else None
        if strides is None or len(self.values[name].shape) != len(_CHANNELS_LAST):
            return None
        rows = self._rows(node.input[0]) or _Rows(node.input[0], is_turned=True)
        return replace(rows, strides=strides)

    def _strides(self, node: onnx.NodeProto) -> tuple[int, int] | None:
        """The steps along rows and columns of a Slice, if it starts at 0 and goes to the end.
        `None` for other Slices.
        """
        numbers = [self._area.constants.get(name) for name in node.input[1:5]]
        known = [array.ravel().tolist() for array in numbers if array is not None]
        if len(known) != len(_SLICED):
            return None
        starts, ends, axes, steps = known
        is_whole = not any(starts) and min(ends, default=0) >= np.iinfo(np.int32).max
        if axes != _IMAGE_AXES or not is_whole:
            return None
        return int(steps[0]), int(steps[1])

    def parts(self, placed: Sequence[_Placed]) -> Iterator[_Placed]:
        """Replace a FusedConv of dequantized integers by a Conv, a sum and an activation."""
        for place, node in placed:
            maker = self._makers.get(node.input[0]) if node.op_type == "FusedConv" else None
            function = attribute(node, "activation", b"")
            name = function.decode() if isinstance(function, bytes) else str(function)
            if maker is None or maker.op_type != "DequantizeLinear" or name not in _PARAMETERS:
                yield place, node
                continue
            yield from ((place, part) for part in self._parts(node, name))

    def _parts(self, node: onnx.NodeProto, function: str) -> Iterator[onnx.NodeProto]:
        (out,) = node.output
        convolved = self._like(f"{out}/convolved", out)
        conv = helper.make_node("Conv", node.input[:3], [convolved])
        conv.attribute.extend(a for a in node.attribute if not a.name.startswith("activation"))
        yield conv
        if len(node.input) > 3 and node.input[3]:
            total = self._like(f"{out}/sum", out)
            yield helper.make_node("Add", [convolved, node.input[3]], [total])
            convolved = total
        activation = helper.make_node(function, [convolved], [out])
        numbers = attribute(node, "activation_params") or ()
        for name, number in zip(_PARAMETERS[function], numbers, strict=True):
            activation.attribute.append(helper.make_attribute(name, float(number)))
        yield activation

    def quantized_pools(self, placed: Sequence[_Placed]) -> Iterator[_Placed]:
        """Replace a float32 MaxPool before a quantization by a MaxPool of bytes after it. The
        result is the same, because quantization keeps the order of numbers.
        """
        pools = dict[str, _Placed]()  # the input of a quantization → the pool that makes it
        for place, node in placed:
            if node.op_type == "MaxPool" and self._is_for_quantization(node):
                pools[node.output[0]] = place, node
            elif node.op_type == "QuantizeLinear" and node.input[0] in pools:
                of_pool, pool = pools[node.input[0]]
                (out,) = node.output
                quantized = self._like(f"{out}/before", pool.input[0], self.values[out].dtype)
                first = onnx.NodeProto.FromString(node.SerializeToString())
                first.input[0] = pool.input[0]
                first.output[:] = [quantized]
                second = onnx.NodeProto.FromString(pool.SerializeToString())
                second.input[:] = [quantized]
                second.output[:] = [out]
                yield place, first
                yield of_pool, second
            else:
                yield place, node

    def _is_for_quantization(self, pool: onnx.NodeProto) -> bool:
        maker = self._makers.get(pool.input[0])
        reader = self._only_reader(pool.output[0]) if len(pool.output) == 1 else None
        is_of_floats = maker is not None and maker.op_type != "DequantizeLinear"
        return is_of_floats and reader is not None and reader.op_type == "QuantizeLinear"

    def _like(self, name: str, other: str, dtype: int = 0) -> str:
        """Declare a new value with the shape of `other`, and return its name."""
        value = self.values[other]
        self.values[name] = AreaValue(name, dtype or value.dtype, value.shape)
        return name

    def without_unread(self, placed: Sequence[_Placed]) -> list[_Placed]:
        """The operators, except those whose results no operator reads any more."""
        kept = list[_Placed]()
        read = Counter(self._area.outputs)
        for place, node in reversed(placed):
            if node.op_type in _BEFORE and not read[node.output[0]]:
                continue
            read.update(node.input)
            kept.append((place, node))
        return kept[::-1]


def _is_transpose(node: onnx.NodeProto, axes: list[int]) -> bool:
    return node.op_type == "Transpose" and list(attribute(node, "perm") or ()) == axes
