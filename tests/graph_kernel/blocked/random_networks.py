"""Random convolutional networks: all of it follows from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
from networks import MICROSOFT, REPEATED, Network, sliced

_CHANNELS = (1, 3, 8, 16, 16, 17, 24, 32, 32, 40, 48)
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 14, 17, 20, 23)
_ACTIVATIONS = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Clip",
    "SiLU",
    "Gelu",
    "QuickGelu",
    "HardSwishWritten",
)


@dataclass(frozen=True)
class _Image:
    name: str
    channels: int
    height: int
    width: int


class RandomNetwork:
    """A network that grows by one operator after the other. `sizes` are the sizes of its symbols
    when it runs.

    A dynamic network may add images that have the same size only by chance, and not according to
    their symbols.
    """

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.network = Network(seed=self.rng.randrange(2**31))
        self.images: list[_Image] = []
        self.rows: list[str] = []  # results of products that may become outputs
        self.batch = self.rng.choice((1, 1, 2, 3))
        self.sizes = {"N": self.batch}
        self.is_dynamic = self.rng.random() < 0.3
        size = self.rng.choice(_SIZES), self.rng.choice(_SIZES)
        for _ in range(self.rng.choice((1, 1, 2))):
            self._input(*size)
        if self.rng.random() < 0.15:
            self._pixel()
        for _ in range(self.rng.randint(2, 14)):
            for _ in range(20):
                if self._grow():
                    break
        self._finish()

    def _input(self, height: int, width: int) -> None:
        channels = self.rng.choice(_CHANNELS)
        shape = (
            ("N", channels, "H", "W") if self.is_dynamic else (self.batch, channels, height, width)
        )
        self.sizes |= {"H": height, "W": width}
        self.images.append(_Image(self.network.input(*shape), channels, height, width))

    def _pixel(self) -> None:
        """Add an input of rows, each of which is the only pixel of an image."""
        channels = self.rng.choice(_CHANNELS)
        rows = self.network.input("N" if self.is_dynamic else self.batch, channels)
        self._made(
            self.network.op("Unsqueeze", rows, self.network.const([2, 3], np.int64)), channels, 1, 1
        )

    def _finish(self) -> None:
        read = {name for node in self.network.nodes for name in node.input}
        made = [
            image.name for image in self.images if image.name not in self.network.inputs
        ] + self.rows
        ends = [name for name in made if name not in read or self.rng.random() < 0.1]
        self.network.outputs = ends

    def _grow(self) -> bool:
        ways = (
            (self._convolve, 9),
            (self._activate, 5),
            (self._add, 4),
            (self._multiply, 1),
            (self._pool, 2),
            (self._join, 3),
            (self._split, 1),
            (self._squeeze, 2),
            (self._enlarge, 1),
            (self._transpose, 1),
            (self._number, 1),
            (self._average, 1),
            (self._turn, 1),
            (self._normalize, 1),
            (self._shuffle, 2),
            (self._classify, 2),
        )
        way = self.rng.choices([w for w, _ in ways], [times for _, times in ways])[0]
        return way(self._any())

    def _any(self) -> _Image:
        recent = self.images[-4:]
        return self.rng.choice(recent if self.rng.random() < 0.7 else self.images)

    def _made(self, name: str, channels: int, height: int, width: int) -> bool:
        self.images.append(_Image(name, channels, height, width))
        return True

    def _convolve(self, x: _Image) -> bool:
        rng = self.rng
        kernel = rng.choice((1, 1, 3, 3, 3, 5, 2))
        stride = rng.choice((1, 1, 1, 2))
        dilation = rng.choice((1, 1, 1, 2))
        reach = dilation * (kernel - 1) + 1
        pads = [reach // 2] * 4 if rng.random() < 0.8 else [rng.randint(0, 3) for _ in range(4)]
        height = x.height + pads[0] + pads[2] - reach
        width = x.width + pads[1] + pads[3] - reach
        if min(height, width) < 0:
            return False
        group, out = self._groups(x.channels)
        given = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": pads, "group": group}
        made = _Image("", out, height // stride + 1, width // stride + 1)
        given |= {"op": "Conv", "z": ""} | (self._fused(made) if rng.random() < 0.25 else {})
        has_bias = rng.random() < 0.8
        name = self.network.conv(x.name, x.channels, out, kernel, bias=has_bias, **given)
        return self._made(name, out, made.height, made.width)

    def _groups(self, channels: int) -> tuple[int, int]:
        """The numbers of groups and of output channels of a convolution."""
        out = self.rng.choice(_CHANNELS)
        how = self.rng.random()
        if how < 0.2:
            return channels, channels
        if how < 0.3 and channels == 32:
            return 2, 64
        if how < 0.5 and channels % 8 == 0:
            taken = self.rng.choice((1, 2, 4, 8))
            return channels // taken, channels * self.rng.choice((1, 1, 1, 2))
        return 1, out

    def _fused(self, made: _Image) -> dict[str, str]:
        """The attributes of a FusedConv: an activation, and sometimes an image that is added."""
        activation = self.rng.choice(("Relu", "Sigmoid", "Tanh"))
        fused = {"op": "FusedConv", "activation": activation}
        same = [i for i in self.images if replace(i, name="") == made]
        if same and not self.is_dynamic and self.rng.random() < 0.5:
            fused["z"] = self.rng.choice(same).name
        return fused

    def _activate(self, x: _Image) -> bool:
        n = self.network
        how = self.rng.choice(_ACTIVATIONS)
        if how == "Clip":
            y = n.op("Clip", x.name, n.const(-0.4), n.const(0.8))
        elif how == "SiLU":
            y = n.op("Mul", x.name, n.op("Sigmoid", x.name))
        elif how == "HardSwishWritten":
            y = n.op("Mul", n.op("HardSigmoid", x.name, alpha=1 / 6), x.name)
        elif how in ("Gelu", "QuickGelu"):
            y = n.op(how, x.name, domain=MICROSOFT)
        else:
            y = n.op(how, x.name)
        return self._made(y, x.channels, x.height, x.width)

    def _alike(self, x: _Image) -> _Image | None:
        same = [
            i
            for i in self.images
            if (i.channels, i.height, i.width) == (x.channels, x.height, x.width)
        ]
        others = [i for i in same if i is not x]
        if not others and not self.is_dynamic:  # as in a residual block, whose input is added
            name = self.network.conv(x.name, x.channels, x.channels, self.rng.choice((1, 3)))
            self._made(name, x.channels, x.height, x.width)
            return self.images[-1]
        return self.rng.choice(others or same)

    def _add(self, x: _Image) -> bool:
        y = self._alike(x)
        return y is not None and self._made(
            self.network.op("Add", *self.rng.sample([x.name, y.name], 2)),
            x.channels,
            x.height,
            x.width,
        )

    def _multiply(self, x: _Image) -> bool:
        y = self._alike(x)
        return y is not None and self._made(
            self.network.op("Mul", x.name, y.name), x.channels, x.height, x.width
        )

    def _pool(self, x: _Image) -> bool:
        rng = self.rng
        kernel = rng.choice((2, 3, 5))
        stride = rng.choice((1, 2))
        pads = [rng.randint(0, kernel // 2) for _ in range(4)]
        height = x.height + pads[0] + pads[2] - kernel
        width = x.width + pads[1] + pads[3] - kernel
        if min(height, width) < 0:
            return False
        given = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
        op = rng.choice(("MaxPool", "AveragePool"))
        if op == "AveragePool":
            given["count_include_pad"] = rng.choice((0, 1))
        elif (
            min(height, width) >= stride and max(pads) < kernel - 1
        ):  # no window begins outside of the image
            given["ceil_mode"] = rng.choice((0, 1))
        beyond = (stride - 1) * given.get("ceil_mode", 0)
        sizes = ((size + beyond) // stride + 1 for size in (height, width))
        return self._made(self.network.op(op, x.name, **given), x.channels, *sizes)

    def _join(self, x: _Image) -> bool:
        same = [i for i in self.images if (i.height, i.width) == (x.height, x.width)]
        parts = [self.rng.choice(same) for _ in range(self.rng.randint(1, 3))] + [x]
        total = sum(part.channels for part in parts)
        if total > 160:
            return False
        return self._made(
            self.network.op("Concat", *(p.name for p in parts), axis=1), total, x.height, x.width
        )

    def _split(self, x: _Image) -> bool:
        if x.channels < 3:
            return False
        n = self.network
        whole = x.channels % 16 == 0 and x.channels > 16 and self.rng.random() < 0.5
        first = 16 if whole else self.rng.randint(1, x.channels - 1)
        sizes = [first, x.channels - first]
        if self.rng.random() < 0.5:
            names = n.op("Split", x.name, n.const(sizes, "int64"), axis=1, outputs=2)
        else:
            ends = [(0, first), (first, 2**40)]
            names = [sliced(n, x.name, *end) for end in ends]
        for name, size in zip(names, sizes, strict=True):
            self._made(name, size, x.height, x.width)
        return True

    def _shuffle(self, x: _Image) -> bool:
        groups = [group for group in range(2, x.channels) if x.channels % group == 0]
        if not groups or (self.is_dynamic and self.rng.random() < 0.8):
            return False
        n = self.network
        group = self.rng.choice(groups)
        y = n.op(
            "Reshape", x.name, n.const([-1, group, x.channels // group, x.height, x.width], "int64")
        )
        turned = n.op("Transpose", y, perm=[0, 2, 1, 3, 4])
        for z in (turned, *self.rng.sample([y, turned], self.rng.choice((0, 0, 1)))):
            z = n.op("Reshape", z, n.const([-1, x.channels, x.height, x.width], "int64"))
            self._made(z, x.channels, x.height, x.width)
        return True

    def _squeeze(self, x: _Image) -> bool:
        n = self.network
        s = n.op("GlobalAveragePool", x.name)
        if self.rng.random() < 0.5:
            s = n.op("Relu", n.conv(s, x.channels, 8, 1))
            s = n.conv(s, 8, x.channels, 1)
        s = n.op("Sigmoid", s)
        if not self.is_dynamic and self.rng.random() < 0.4:
            s = n.op("Resize", s, "", n.const([1, 1, x.height, x.width]), **REPEATED)
        names = [x.name, s]
        self.rng.shuffle(names)
        return self._made(n.op("Mul", *names), x.channels, x.height, x.width)

    def _classify(self, x: _Image) -> bool:
        n = self.network
        rng = self.rng
        channels = x.channels
        if rng.random() < 0.3:
            y = n.op("ReduceMean", x.name, axes=[2, 3], keepdims=0)
        else:
            y = n.op("GlobalAveragePool", x.name)
            how = rng.choice(("Flatten", "Reshape", "Squeeze"))
            shape = {"Reshape": [0, -1], "Squeeze": [2, 3]}.get(how)
            y = n.op(how, y, *([] if shape is None else [n.const(shape, "int64")]))
        for _ in range(rng.randint(1, 2)):
            before = channels
            channels = rng.choice((x.channels, *_CHANNELS))
            if rng.random() < 0.5:
                y = n.product(y, before, channels, bias=rng.random() < 0.7)
            else:
                y = n.op("Gemm", y, n.random(channels, before), n.random(channels), transB=1)
            y = n.op(rng.choice(("Relu", "Sigmoid", "HardSigmoid")), y) if rng.random() < 0.6 else y
        self.rows.append(y)
        how, shape = rng.choice((("Unsqueeze", [2, 3]), ("Reshape", [-1, channels, 1, 1])))
        y = n.op(how, y, n.const(shape, "int64"))
        self._made(y, channels, 1, 1)
        return channels != x.channels or self._made(
            n.op("Mul", x.name, y), x.channels, x.height, x.width
        )

    def _average(self, x: _Image) -> bool:
        return self._made(self.network.op("ReduceMean", x.name, axes=[2, 3]), x.channels, 1, 1)

    def _normalize(self, x: _Image) -> bool:
        n = self.network
        variance = n.const(np.linspace(0.2, 1.5, x.channels))
        statistics = [*(n.random(x.channels) for _ in range(3)), variance]
        return self._made(
            n.op("BatchNormalization", x.name, *statistics), x.channels, x.height, x.width
        )

    def _enlarge(self, x: _Image) -> bool:
        rows = self.rng.randint(1, 3)
        columns = self.rng.randint(1, 3)
        if x.height * rows > 40 or x.width * columns > 40:
            return False
        n = self.network
        y = n.op("Resize", x.name, "", n.const([1, 1, rows, columns]), **REPEATED)
        return self._made(y, x.channels, x.height * rows, x.width * columns)

    def _transpose(self, x: _Image) -> bool:
        if x.height > 20 or x.width > 20:
            return False
        n = self.network
        rng = self.rng
        out = self.rng.choice(_CHANNELS)
        kernel = [rng.randint(1, 4), rng.randint(1, 4)]
        strides = [rng.randint(1, 3), rng.randint(1, 3)]
        pads = [rng.randint(0, (kernel[k % 2] - 1) // 2) for k in range(4)]
        more = [rng.randint(0, stride - 1) for stride in strides] if rng.random() < 0.3 else [0, 0]
        group = 2 if x.channels == 32 and rng.random() < 0.5 else 1
        out = 32 if group > 1 else out
        w = n.random(x.channels, out // group, *kernel)
        given = {"strides": strides, "pads": pads, "output_padding": more, "group": group}
        y = n.op(
            "ConvTranspose", x.name, w, *([n.random(out)] if rng.random() < 0.7 else []), **given
        )
        height, width = (
            (size - 1) * strides[k] + kernel[k] - pads[k] - pads[k + 2] + more[k]
            for k, size in ((0, x.height), (1, x.width))
        )
        return self._made(y, out, height, width)

    def _turn(self, x: _Image) -> bool:
        n = self.network
        rng = self.rng
        out = x.channels
        y = n.op("Transpose", x.name, perm=[0, 2, 3, 1])
        for _ in range(rng.randint(0, 3)):
            how = rng.random()
            if how < 0.4:
                bias = [n.random(out)] if rng.random() < 0.7 else []
                y = n.op(
                    "LayerNormalization", y, n.random(out), *bias, epsilon=rng.choice((1e-5, 0.1))
                )
                y = (
                    n.op(rng.choice(("Sigmoid", "LeakyRelu", "Relu")), y)
                    if rng.random() < 0.3
                    else y
                )
            elif how < 0.8:
                before = out
                out = rng.choice(_CHANNELS)
                y = n.product(y, before, out, bias=rng.random() < 0.7)
            else:
                y = n.op("Mul", n.op("Relu", y), n.random(out))
        return self._made(n.op("Transpose", y, perm=[0, 3, 1, 2]), out, x.height, x.width)

    def _number(self, x: _Image) -> bool:
        n = self.network
        y = n.op(self.rng.choice(("Add", "Mul", "Sub")), x.name, n.const(self.rng.uniform(-1, 1)))
        return self._made(y, x.channels, x.height, x.width)
