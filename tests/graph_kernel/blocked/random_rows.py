"""Random networks of products with matrices: all of it follows from a seed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from networks import MICROSOFT, Network, heads_in_front, repeated, rotary

_CHANNELS = (1, 3, 8, 16, 16, 17, 24, 32, 33, 48, 64, 70, 96)
_ROWS = (0, 1, 1, 2, 3, 5, 8, 14, 15, 29, 57)
_ACTIVATIONS = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Clip",
    "SiLU",
    "Gelu",
    "QuickGelu",
    "BiasGelu",
    "FastGelu",
)


class RandomRows:
    """A network that grows by one operator after the other. `sizes` are the sizes of its symbols
    when it runs.

    A dynamic network may add values that have the same number of rows only by chance, and not
    according to their symbols.
    """

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.network = Network(seed=self.rng.randrange(2**31))
        self.rows: list[tuple[str, int]] = []  # with their channels
        sizes = {
            "N": self.rng.choice((0, 1, 1, 2, 3)),
            "H": self.rng.choice((0, 1, 2, 4)),
            "M": self.rng.choice(_ROWS),
        }
        rank = self.rng.choice((2, 2, 3, 3, 3, 4, 4))
        self.is_matrix = rank == 2
        self.sizes = sizes
        outer = {2: ("M",), 3: ("N", "M"), 4: ("N", "H", "M")}[rank]
        is_dynamic = self.rng.random() < 0.4
        for _ in range(self.rng.choice((1, 1, 2))):
            channels = self.rng.choice(_CHANNELS)
            known = [name if is_dynamic else sizes[name] for name in outer]
            self.rows.append((self.network.input(*known, channels), channels))
        self.outer = [name if is_dynamic else sizes[name] for name in outer]
        self._grow(has_heads=rank == 3)
        self._choose_outputs()

    def _grow(self, has_heads: bool) -> None:
        ways = (
            (self._multiply, 6),
            (self._activate, 4),
            (self._combine, 4),
            (self._bias, 2),
            (self._number, 1),
            (self._join, 2),
            (self._split, 2),
            (self._normalize, 2),
        )
        if has_heads:
            ways = (*ways, (self._attend, 2), (self._attend_in_groups, 2), (self._clear, 1))
        for _ in range(self.rng.randint(2, 12)):
            way = self.rng.choices([w for w, _ in ways], [times for _, times in ways])[0]
            recent = self.rows[-4:]
            way(*self.rng.choice(recent if self.rng.random() < 0.7 else self.rows))

    def _choose_outputs(self) -> None:
        read = {name for node in self.network.nodes for name in node.input}
        made = [name for name, _ in self.rows if name not in self.network.inputs]
        self.network.outputs = [
            name for name in made if name not in read or self.rng.random() < 0.1
        ]

    def _multiply(self, x: str, channels: int) -> None:
        out = self.rng.choice(_CHANNELS)
        if not self.is_matrix or self.rng.random() < 0.4:
            self.rows.append(
                (self.network.product(x, channels, out, bias=self.rng.random() < 0.6), out)
            )
            return
        n = self.network
        is_transposed = self.rng.randint(0, 1)
        shape = (out, channels) if is_transposed else (channels, out)
        weights = n.const(n.rng.standard_normal(shape) / np.sqrt(channels))
        bias = self.rng.choice(([], [n.random(out)], [n.random(1, out)]))
        fused: dict[str, Any] = {
            "domain": MICROSOFT,
            "activation": self.rng.choice(("Relu", "Tanh", "Sigmoid")),
        }
        op, how = ("FusedGemm", fused) if self.rng.random() < 0.3 else ("Gemm", {})
        self.rows.append((n.op(op, x, weights, *bias, transB=is_transposed, **how), out))

    def _activate(self, x: str, channels: int) -> None:
        n = self.network
        how = self.rng.choice(_ACTIVATIONS)
        if how == "Clip":
            y = n.op("Clip", x, n.const(-0.4), n.const(0.8))
        elif how == "SiLU":
            y = n.op("Mul", x, n.op("Sigmoid", x))
        elif how == "BiasGelu" or (how == "FastGelu" and self.rng.random() < 0.5):
            y = n.op(how, x, n.random(channels), domain=MICROSOFT)
        elif how in ("Gelu", "QuickGelu", "FastGelu"):
            y = n.op(how, x, domain=MICROSOFT)
        else:
            y = n.op(how, x)
        self.rows.append((y, channels))

    def _combine(self, x: str, channels: int) -> None:
        same = [name for name, other in self.rows if other == channels]
        y = self.rng.choice(same)
        if y == x and self.rng.random() < 0.7:
            y = self.network.product(x, channels, channels)
            self.rows.append((y, channels))
        op = self.rng.choice(("Add", "Add", "Mul", "Sum"))
        self.rows.append((self.network.op(op, *self.rng.sample([x, y], 2)), channels))

    def _bias(self, x: str, channels: int) -> None:
        operands = [x, self.network.random(channels)]
        self.rng.shuffle(operands)
        self.rows.append((self.network.op(self.rng.choice(("Add", "Mul")), *operands), channels))

    def _number(self, x: str, channels: int) -> None:
        n = self.network
        self.rows.append(
            (
                n.op(self.rng.choice(("Add", "Mul", "Sub")), x, n.const(self.rng.uniform(-1, 1))),
                channels,
            )
        )

    def _normalize(self, x: str, channels: int) -> None:
        n = self.network
        bias = [n.random(channels)] if self.rng.random() < 0.7 else []
        how = {"axis": 1} if self.is_matrix and self.rng.random() < 0.5 else {}
        if self.rng.random() < 0.4:
            made = n.op(
                "Div",
                x,
                n.op(
                    "Sqrt", n.op("Add", n.mean_of_squares(x), n.const(self.rng.choice((1e-5, 0.1))))
                ),
            )
            self.rows.append((n.op("Mul", made, *bias) if bias else made, channels))
            return
        made = n.op(
            "LayerNormalization",
            x,
            n.random(channels),
            *bias,
            epsilon=self.rng.choice((1e-5, 0.1)),
            **how,
        )
        self.rows.append((made, channels))

    def _join(self, x: str, channels: int) -> None:
        other, more = self.rng.choice(self.rows)
        if channels + more <= 160:
            self.rows.append((self.network.op("Concat", x, other, axis=-1), channels + more))

    def _split(self, x: str, channels: int) -> None:
        if channels > 16:
            sizes = [16, channels - 16]
            names = self.network.op(
                "Split", x, self.network.const(sizes, "int64"), axis=-1, outputs=2
            )
            self.rows += zip(names, sizes, strict=True)

    def _attend(self, x: str, channels: int) -> None:
        """Add an attention of two heads. The key and the value may be the same."""
        n = self.network
        of_head = self.rng.choice((16, 32, 48))
        other, others = self.rng.choice(self.rows)
        q = n.product(x, channels, 2 * of_head)
        k = n.product(other, others, 2 * of_head)
        v = k if self.rng.random() < 0.3 else n.product(other, others, 64)
        batch, rows = self.outer
        more = []
        if self.rng.random() < 0.5:
            more = [
                "",
                "",
                n.input(self.rng.choice((1, batch)), self.rng.choice((1, 2)), rows, rows),
            ]
        how = {"scale": self.rng.choice((0.1, 1.0))} if self.rng.random() < 0.5 else {}
        made = n.op("MultiHeadAttention", q, k, v, *more, domain=MICROSOFT, num_heads=2, **how)
        self.rows.append((made, 2 * of_head if v == k else 64))

    def _attend_in_groups(self, x: str, channels: int) -> None:
        """Add an attention with repeated heads of keys and values, and with rotary embeddings, as
        in decoders.
        """
        n = self.network
        (batch, rows) = self.outer
        size = self.rng.choice((32, 64))
        key_heads = self.rng.choice((1, 2))
        is_empty = not self.sizes["N"] * self.sizes["M"]
        # the Reshape after an Expand does not accept empty tensors
        times = 1 if is_empty else self.rng.choice((1, 2, 3))
        heads = times * key_heads
        q, k, v = (n.product(x, channels, size * count) for count in (heads, key_heads, key_heads))
        k, v = (heads_in_front(n, one, key_heads, size) for one in (k, v))
        if self.rng.random() < 0.7:
            tables = n.input(rows, size // 2), n.input(rows, size // 2)
            q = rotary(n, q, *tables, num_heads=heads)
            k = rotary(n, k, *tables)
        if not is_empty:
            k, v = (repeated(n, one, key_heads, times, size) for one in (k, v))
        bias = ["", "", n.input(batch, 1, rows, rows)] if self.rng.random() < 0.5 else []
        made = n.op("MultiHeadAttention", q, k, v, *bias, domain=MICROSOFT, num_heads=heads)
        self.rows.append((made, heads * size))

    def _clear(self, x: str, channels: int) -> None:
        n = self.network
        (batch, rows) = self.outer
        chosen = n.input(self.rng.choice((1, batch)), self.rng.choice((1, rows)), 1)
        self.rows.append(
            (n.op("Where", n.op("Greater", chosen, n.const(0.0)), n.const(0.0), x), channels)
        )
