"""The operations of an area (operators that one kernel computes), in the order in which they run.
An operation becomes one step of the kernel's program. Activations and sums become part of the
operation before them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import onnx

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.blocked.byte_operators import (
    Dequantized,
    Unquantized,
    quantize,
    takes_sum,
    with_dequantized,
    with_sum,
)
from fusionc.graph_kernel.blocked.convolution_operators import MOST_PLANAR
from fusionc.graph_kernel.blocked.dynamic_forms import (
    inputs_with_channels_last,
    with_dynamic_groups,
)
from fusionc.graph_kernel.blocked.float16_values import in_float32, with_half_range
from fusionc.graph_kernel.blocked.float_result_forms import with_plain_groups
from fusionc.graph_kernel.blocked.image_area import (
    GroupedChannels,
    Heads,
    Image,
    ImageArea,
    ImageCut,
    ImageJoin,
    NormPart,
    Operation,
    UnfitOperator,
)
from fusionc.graph_kernel.blocked.image_operators import is_of_rows, operation_of
from fusionc.graph_kernel.blocked.image_size import ImageSize
from fusionc.graph_kernel.blocked.integer_forms import in_groups
from fusionc.graph_kernel.blocked.joined_line import joined_line
from fusionc.graph_kernel.blocked.kinds.by_element import ActStep, AddStep, MulStep, ScaleStep
from fusionc.graph_kernel.blocked.kinds.by_lane import DepthwiseStep
from fusionc.graph_kernel.blocked.kinds.byte_convolve import ByteConvolutionKind
from fusionc.graph_kernel.blocked.kinds.byte_elements import ByteAddStep, ByteClipStep
from fusionc.graph_kernel.blocked.kinds.byte_quantize import (
    ByteDequantizeStep,
    ByteQuantizeStep,
    ByteRoundStep,
)
from fusionc.graph_kernel.blocked.kinds.byte_range import ByteGridStep, ByteRangeStep
from fusionc.graph_kernel.blocked.kinds.convolve import ConvStep
from fusionc.graph_kernel.blocked.kinds.load_store import LoadStep, StoreStep
from fusionc.graph_kernel.blocked.kinds.norm import RmsNormStep
from fusionc.graph_kernel.blocked.kinds.resize import ResizeStep
from fusionc.graph_kernel.blocked.step_kind import (
    NO_ACTIVATION,
    PLAIN_WINDOW,
    Activated,
    Activation,
    StepKind,
)
from fusionc.graph_kernel.blocked.weight_dequantization import (
    DequantizedWeights,
    with_dequantized_weights,
)

_Item = Operation | ImageJoin | ImageCut
_GATES = (Activation.SIGMOID, Activation.HARD_SIGMOID)  # activations with results from 0 to 1
# The heights and widths to assume for inputs of unknown size: in general, and for inputs with few
# channels.
_ABOUT = 56
_ABOUT_FIRST = 224
# From this number of pixels for each output channel, it is faster to multiply the weights by
# factors than the pixels.
_PIXELS = 4


def _read_as_groups(area: Area) -> tuple[Area, list[int], Mapping[str, DequantizedWeights]]:
    """The area in the form that `Operations` reads; for each of its operators, the index of the
    original operator; and the weights that operators compute, by name.

    In this form, operators on integers are groups (DequantizeLinear, operator, QuantizeLinear),
    float16 is float32, and the operators that compute weights are removed.
    """
    area, dynamic = with_dynamic_groups(area)
    area, plain = with_plain_groups(area)
    places = [dynamic[place] for place in plain]
    area, grouped = in_groups(area)
    area, kept, dequantized = with_dequantized_weights(area)
    wide, in_float = in_float32(area)
    area, ranged = with_half_range(area, wide)
    return area, [places[grouped[kept[in_float[place]]]] for place in ranged], dequantized


class Operations:
    """The operations of an area, and its joins and cuts of channels. If no step can compute some of
    the operators, the constructor raises UnfitOperator with the places of all of these operators.
    """

    def __init__(self, area: Area, is_fragment: bool = False, has_rows: bool = False) -> None:
        area, places, dequantized = _read_as_groups(area)
        has_rows = has_rows or is_of_rows(area.nodes)
        self.images = ImageArea(area, is_fragment, has_rows, dequantized)
        if not has_rows:
            self.images.channels_last.update(inputs_with_channels_last(area))
        self._outputs = frozenset(area.outputs)
        self._uses = Counter(name for node in area.nodes for name in dict.fromkeys(node.input))
        self._made: dict[str, _Item] = {}
        self._order: dict[int, _Item] = {}  # by identity, because fusion moves and removes items
        self._loaded: set[tuple[str, bool]] = set()
        unfit: dict[int, str] = {}
        for number, node in enumerate(area.nodes):
            try:
                self._read(node)
            except UnfitOperator as reason:
                unfit[number] = str(reason)
                # The operators that follow are judged by the declared shapes of the results. Values
                # inside a group have no declared shapes.
                for name in filter(area.values.get, node.output):
                    with suppress(UnfitOperator):
                        self.images.note(name, None)
        self._remove_unread_conversions()
        unfinished = self._unfinished(unfit)
        # An operator that reads heads is not blamed: it may fit if the heads come from outside.
        unfit = {
            place: why for place, why in unfit.items() if not self._reads_heads(area.nodes[place])
        } | unfinished
        if unfit:
            unfit_places = dict.fromkeys(places[number] for number in unfit)
            raise UnfitOperator(next(iter(unfit.values())), list(unfit_places))

    def _remove_unread_conversions(self) -> None:
        """Remove conversions whose results no operation reads: dequantizations, if convolutions
        dequantize their operands themselves, and quantizations, if their bytes are only
        dequantized.
        """
        read = set[str]()
        for item in self.items:
            if isinstance(item, Operation):
                read |= {item.image, item.second, item.third}
            else:
                read.update(item.parts if isinstance(item, ImageJoin) else [item.image])
        for key, item in list(self._order.items()):
            if not isinstance(item, Operation) or item.out in read:
                continue
            if isinstance(item.kind, ByteDequantizeStep | ByteQuantizeStep):
                del self._order[key]

    def _unfinished(self, unfit: Mapping[int, str]) -> dict[int, str]:
        """The place of each operator whose result cannot be used → the reason. The result of such
        an operator is only a part of a later operation: the parts of a norm must be read by a norm
        and by no other operator, and all operators that read heads or dequantized numbers must fit.
        """
        unfinished = dict[int, str]()
        if self.images.is_fragment or not self.images.parts:
            return unfinished
        readers = self._readers()
        for place, node in reversed(list(enumerate(self.images.area.nodes))):
            part = self.images.parts.get(node.output[0])
            read = readers[node.output[0]]
            is_lost = any(reader in unfit or reader in unfinished for reader in read)
            if isinstance(part, NormPart) and (len(read) != 1 or is_lost):
                unfinished[place] = part.unknown
            elif isinstance(part, Heads | Dequantized | Unquantized) and is_lost:
                unfinished[place] = part.outside
        return unfinished

    def _readers(self) -> Mapping[str, list[int]]:
        """The places of the operators that read each value."""
        readers = defaultdict[str, list[int]](list)
        for place, node in enumerate(self.images.area.nodes):
            for name in dict.fromkeys(node.input):
                readers[name].append(place)
        return readers

    def _reads_heads(self, node: onnx.NodeProto) -> bool:
        """Whether an operator reads heads that are made in the area."""
        return any(isinstance(self.images.parts.get(name), Heads) for name in node.input)

    @property
    def unknown(self) -> int:
        """The height and width to assume for inputs of unknown size."""
        known = self.images.images
        inputs = [known[name].channels for name in self.images.area.inputs if name in known]
        return _ABOUT_FIRST if inputs and min(inputs) <= MOST_PLANAR else _ABOUT

    @property
    def items(self) -> list[_Item]:
        """All operations, joins and cuts, in order."""
        return list(self._order.values())

    def _read(self, node: onnx.NodeProto) -> None:
        item = operation_of(self.images, node)
        if item is None:
            self._pass_on(node)
            return
        if isinstance(item, Operation):
            # Rows that are made from heads have another name than the operator's result.
            self._uses[item.out] = self._uses[node.output[0]]
            made = [self._add_operation(item)]
        elif isinstance(item, ImageJoin):
            made = self._add_join(item)
        else:
            made = self._add_cut(item)
        for name in made:
            if name in self._outputs:
                self._put(Operation(self._store(name), name, name))

    def _store(self, name: str) -> StoreStep:
        is_last = self.images.is_channels_last(name)
        return StoreStep(is_last, self._flip(name))

    def _flip(self, name: str) -> int:
        return self.images.flip(name) if self.images.image(name).element_bytes == 1 else 0

    def _add_operation(self, item: Operation) -> str:
        item = self._scaled(item)
        self._take_factor(item)
        self._load(item.image, item.is_planar)
        for name in filter(None, (item.second, item.third)):
            self._load(name, False)
        self._add(item)
        return item.out

    def _add_join(self, item: ImageJoin) -> list[str]:
        for part in item.parts:
            self._load(part, False)
        self._put(item, item.out)
        return [item.out]

    def _add_cut(self, item: ImageCut) -> list[str]:
        self._load(item.image, False)
        needed = tuple(
            (name, first) for name, first in item.parts if self._uses[name] or name in self._outputs
        )
        cut = ImageCut(item.image, needed)
        made = [name for name, _ in needed]
        if not self._rename(cut):
            self._put(cut, *made)
        return made

    def _put(self, item: _Item, *made: str) -> None:
        self._order[id(item)] = item
        for name in made:
            self._made[name] = item

    def _load(self, name: str, is_planar: bool) -> None:
        if name in self.images.dequantized and name not in self._made:
            self._dequantize(name)
        if name in self.images.ranges and name not in self._made:
            self._compute_grid(name)
        tensor, scale = self.images.loaded_as_bytes.get(name, (name, 0.0))
        if (
            name in self._made
            or tensor not in self.images.area.inputs
            or (name, is_planar) in self._loaded
        ):
            return
        self._loaded.add((name, is_planar))
        zero = self.images.zero_points.get(name, 0)
        flip = 0 if scale else self._flip(name)
        grid = self.images.grids.get(name, "")
        if grid:
            self._load(grid, False)
        load = LoadStep(self.images.is_channels_last(name), zero, flip, scale)
        self._put(Operation(load, name, tensor, third=grid, is_planar=is_planar))

    def _dequantize(self, name: str) -> None:
        """Add the operation that dequantizes an image. If the image was quantized at run time, the
        operation reads the float32 image from before the quantization, not the bytes.
        """
        integers, step, zero = self.images.dequantized[name]
        grid = self.images.grids.get(integers, "")
        image = self.images.ranges[grid] if grid else integers
        for read in filter(None, (image, grid)):
            self._load(read, False)
        kind = ByteRoundStep() if grid else ByteDequantizeStep(zero, step)
        self._put(Operation(kind, name, image, third=grid), name)

    def _compute_grid(self, grid: str) -> None:
        """Add the operations that compute a grid (scale and zero point) from the range of an
        image.
        """
        x = self.images.ranges[grid]
        image = self.images.image(x)
        is_planar = any(image == x for image, _ in self.images.loaded_as_bytes.values())
        self._load(x, is_planar)
        rows = f"{grid}/rows"
        self.images.images[rows] = Image(image.channels, image.batch, image.height, ImageSize(2))
        self._put(Operation(ByteRangeStep(), rows, x, is_planar=is_planar), rows)
        self._put(Operation(ByteGridStep(), grid, rows), grid)

    def _pass_on(self, node: onnx.NodeProto) -> None:
        """Count the readers of an operator's result as readers of the value that they will read:
        the image itself instead of channel groups, heads or dequantized numbers, and rows instead
        of the squares of a norm.
        """
        name = node.output[0]
        part = self.images.parts.get(name)
        if isinstance(part, Heads | GroupedChannels | Dequantized):
            self._uses[part.image] += self._uses[name] - 1
        elif node.op_type == "Pow":
            self._uses[node.input[0]] -= 1

    def _is_private(self, name: str) -> bool:
        """Whether exactly one operator needs a value."""
        return self._uses[name] == 1 and name not in self._outputs

    def _add(self, operation: Operation) -> None:
        """Append an operation, or make it part of an operation before it."""
        if isinstance(operation.kind, MulStep):
            operation = self._gated(operation) or operation
        if not any(fuse(operation) for fuse in self._ways_to_fuse(operation.kind)):
            self._put(operation, operation.out)

    def _ways_to_fuse(self, kind: StepKind) -> list[Callable[[Operation], bool]]:
        if isinstance(kind, ActStep):
            return [self._activate]
        if isinstance(kind, DepthwiseStep):
            return [self._extend, self._give_bias, self._give_factors]
        if isinstance(kind, ByteClipStep):
            return [self._clip]
        if isinstance(kind, ByteQuantizeStep):
            return [self._quantize]
        return [self._add_to_convolution] if isinstance(kind, AddStep | ByteAddStep) else []

    def _end_with(self, maker: Operation, out: str) -> None:
        """Let an operation write the result `out` of a later operation, which was fused into it."""
        maker.out = out
        self._made[out] = maker

    def _rename(self, cut: ImageCut) -> bool:
        """If the cut takes a whole image, let the operation that makes this image write it under
        the name of the cut's part. Returns whether that was possible.
        """
        before = self._maker(cut.image)
        if before is None or len(cut.parts) != 1:
            return False
        ((name, _),) = cut.parts
        if self.images.image(name) != self.images.image(cut.image):
            return False
        self._end_with(before, name)
        return True

    def _scaled(self, product: Operation) -> Operation:
        """A product with an image that was enlarged from a single pixel becomes a product with the
        pixel itself. Other products are returned unchanged.
        """
        if not isinstance(product.kind, MulStep) or product.image == product.second:
            return product
        for image, large in ((product.image, product.second), (product.second, product.image)):
            resize = self._made.get(large)
            if not isinstance(resize, Operation) or not isinstance(resize.kind, ResizeStep):
                continue
            if resize.activated != NO_ACTIVATION or not self.images.image(resize.image).is_pixel:
                continue
            if self._is_private(large):
                del self._order[id(resize)]
                self._uses[resize.image] -= 1
            self._uses[large] -= 1
            self._uses[resize.image] += 1
            return Operation(ScaleStep(), product.out, image, resize.image)
        return product

    def _take_factor(self, conv: Operation) -> None:
        """Let a 1×1 convolution multiply its weights, instead of its image, by a factor for each
        channel, if that takes less time. The factors must be at most 1: with a larger factor, a
        weight could overflow although no pixel does.
        """
        is_point = isinstance(conv.kind, ConvStep) and conv.window == PLAIN_WINDOW
        before = self._before(conv) if is_point and conv.second != conv.image else None
        if before is None or not isinstance(before.kind, ScaleStep):
            return
        gate = self._made.get(before.second)
        if not isinstance(gate, Operation) or gate.is_after:
            return
        out = self.images.image(conv.out)
        pixels = out.height.about(self.unknown) * out.width.about(self.unknown)
        if gate.activated.function in _GATES and pixels >= _PIXELS * out.channels:
            del self._order[id(before)]
            conv.image = before.image
            conv.third = before.second

    def _gated(self, product: Operation) -> Operation | None:
        """The activation of x that computes x · sigmoid(x). `None` if the product is another
        one.
        """
        for image, gate in ((product.image, product.second), (product.second, product.image)):
            maker = self._made.get(gate)
            if not isinstance(maker, Operation) or not isinstance(maker.kind, ActStep):
                continue
            if maker.image != image or not self._is_private(gate):
                continue
            of_gate = maker.activated
            if of_gate.function is Activation.SIGMOID:
                activated = Activated(Activation.SWISH, 1.0)
            elif of_gate.function is Activation.HARD_SIGMOID:
                activated = Activated(Activation.CLIP_SWISH, of_gate.alpha, of_gate.beta)
            else:
                continue
            del self._order[id(maker)]
            self._uses[image] -= 1
            return Operation(ActStep(), product.out, image, activated=activated)
        return None

    def _activate(self, activation: Operation) -> bool:
        """If the operation before an activation can apply it, fuse the two. Returns whether it
        can.
        """
        before = self._before(activation)
        if before is None:
            return False
        before.activated = activation.activated
        self._end_with(before, activation.out)
        return True

    def _quantize(self, quantization: Operation) -> bool:
        """If the operation before a quantization can quantize its result, fuse the two. Returns
        whether it can.
        """
        before = self._maker(quantization.image)
        assert isinstance(quantization.kind, ByteQuantizeStep)
        if quantization.third or before is None or not quantize(before, quantization.kind):
            return False
        self._end_with(before, quantization.out)
        return True

    def _clip(self, clip: Operation) -> bool:
        """If the operation before a clip can clip its bytes, fuse the two. Returns whether it
        can.
        """
        before = self._maker(clip.image)
        kind = clip.kind
        if before is None or not isinstance(before.kind, ByteConvolutionKind | ByteAddStep):
            return False
        if (before.kind.least, before.kind.most) != (0, 255) or not isinstance(kind, ByteClipStep):
            return False
        # The fused operation fills the border with its own zero point, so it must be the clip's.
        if self.images.zero_points.get(clip.out, before.kind.zero) != before.kind.zero:
            return False
        before.kind = replace(before.kind, least=kind.least, most=kind.most)
        self._end_with(before, clip.out)
        return True

    def _extend(self, line: Operation) -> bool:
        """If the operation before `line` multiplies and adds, and can include the factor and addend
        of `line`, fuse the two. Returns whether it can.
        """
        before = self._before(line)
        if before is None or before.second or before.bias or line.bias:
            return False
        if before.line is None or line.line is None:
            return False
        joined = joined_line(before.line, line.line)
        if joined is None:
            return False
        before.line = joined
        self._end_with(before, line.out)
        return True

    def _give_bias(self, line: Operation) -> bool:
        """If the operation before `line` is a convolution that can add the numbers of `line` as its
        bias, fuse the two. Returns whether it can.
        """
        before = self._before(line)
        if line.line is None or not line.bias:
            return False
        if before is None or not before.kind.is_convolution:
            return False
        if before.bias or before.second or before.line is not None:
            return False
        before.bias = line.bias
        before.activated = line.activated
        self._end_with(before, line.out)
        return True

    def _give_factors(self, factors: Operation) -> bool:
        """If the operation before `factors` is a norm that can multiply each channel by its factor,
        fuse the two. Returns whether it can.
        """
        before = self._before(factors)
        if before is None or not isinstance(before.kind, RmsNormStep) or before.weights:
            return False
        if not factors.weights or factors.bias:
            return False
        before.weights = factors.weights
        self._end_with(before, factors.out)
        return True

    def _before(self, operation: Operation) -> Operation | None:
        """The operation that makes the image of `operation`. `None` if other operations read the
        image, or if the operation already has an activation.
        """
        before = self._maker(operation.image)
        return before if before is not None and before.activated == NO_ACTIVATION else None

    def _maker(self, name: str) -> Operation | None:
        """The operation that makes an image in this area. `None` if the image is loaded, or unless
        exactly one operation reads it.
        """
        maker = self._made.get(name)
        if not isinstance(maker, Operation) or isinstance(maker.kind, LoadStep):
            return None
        return maker if self._is_private(name) else None

    def _add_to_convolution(self, total: Operation) -> bool:
        """If a convolution makes an operand of a sum, let it add the other operand. Returns whether
        one does.
        """
        fitting = self._convolution_for_sum(total)
        if fitting is None:
            return False
        maker, other = fitting
        del self._order[id(maker)]
        maker.second = self._second_of(maker, total, other)
        maker.is_after = maker.activated != NO_ACTIVATION
        maker.out = total.out
        self._put(maker, maker.out)
        return True

    def _convolution_for_sum(self, total: Operation) -> tuple[Operation, str] | None:
        """The convolution that makes an operand of a sum and can add the other operand, with the
        name of that other operand. If both operands come from such convolutions, the later one is
        chosen.
        """
        places = {key: k for k, key in enumerate(self._order)}
        makers = [
            (self._made.get(a), b)
            for a, b in ((total.image, total.second), (total.second, total.image))
        ]
        fitting = [
            (places[id(maker)], maker, other)
            for maker, other in makers
            if isinstance(maker, Operation)
            and maker.kind.is_convolution
            and not maker.second
            and self._is_private(maker.out)
            and maker.out != other
            and takes_sum(maker.kind)
        ]
        if not fitting:
            return None
        _, maker, other = max(fitting, key=lambda one: one[0])
        return maker, other

    def _second_of(self, conv: Operation, total: Operation, other: str) -> str:
        """The image that a convolution adds in place of a sum. If the image is dequantized before
        the sum, a convolution of bytes adds the bytes and dequantizes them itself.
        """
        if not isinstance(conv.kind, ByteConvolutionKind):
            return other
        if not conv.kind.has_floats:
            conv.kind = with_sum(conv.kind, total.kind, is_second=other == total.image)
            return other
        before = self._made.get(other)
        if not isinstance(before, Operation) or not isinstance(before.kind, ByteDequantizeStep):
            return other
        if before.activated != NO_ACTIVATION or before.third:
            return other
        conv.kind = with_dequantized(conv.kind, before.kind)
        return before.image
