"""Choose sizes for the dynamic dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations, islice

from fusionc.verify.inputs.formulas import Sizes, evaluate, formula_of, symbols_of
from fusionc.verify.interface import Port

# Sizes that models with constraints between their dimensions tend to accept.
_LADDER = (1, 2, 3, 4, 8, 16, 32, 64, 128, 224, 256, 512, 768, 1024, 5, 6, 7, 12, 24, 48, 96, 384)
_RANKS = (2, 3, 4, 1, 0)
_PAST = re.compile("past|cache|prev", re.IGNORECASE)
_TOTAL = re.compile("total|mask|kv|full", re.IGNORECASE)
_HEIGHT = (64, 96)
_WIDTH = (96, 64)
# the first and the second size of dimensions with such names
_BY_NAME = {
    _PAST: (6, 4),
    re.compile("height|^h$", re.IGNORECASE): _HEIGHT,
    re.compile("width|^w$", re.IGNORECASE): _WIDTH,
    re.compile("channel", re.IGNORECASE): (3, 4),
}
_MOST_LIKELY = 12
_MOST_ELEMENTS = 1 << 24  # of one input


def rank_symbol(port: Port) -> str:
    """The symbol for the rank of an input that declares none."""
    return f"rank of {port.name}"


def shape_at(port: Port, sizes: Sizes) -> tuple[int, ...]:
    """The shape of an input with these sizes of the symbols."""
    if port.dims is None:
        return (2, 3, 4, 5)[: sizes[rank_symbol(port)]]
    return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in port.dims)


class SizeChoices:
    """Proposes sizes for all symbols (names of dynamic dimensions) of the inputs, the most
    plausible first.

    `fixed` has the sizes of symbols that the caller has chosen, and `likely` sizes that occur in
    the model. The size of a symbol that is a formula, such as "past + seq", follows from the other
    symbols. `refuses` returns True for sizes that are impossible in the model, such as a size that
    does not fit the weight that the dimension is multiplied with.
    """

    def __init__(
        self,
        ports: Iterable[Port],
        fixed: Sizes,
        likely: Iterable[int] = (),
        refuses: Callable[[Sizes], bool] = lambda _: False,
    ) -> None:
        self._ports = list(ports)
        declared = [dim for port in self._ports for dim in port.dims or () if isinstance(dim, int)]
        self._likely = list(dict.fromkeys([*declared, *likely]))[:_MOST_LIKELY]
        self._fixed = dict(fixed)
        self._axes = dict(_axes(self._ports, fixed))
        self._formulas = {symbol: tree for symbol in self._axes if (tree := formula_of(symbol))}
        for name in chain.from_iterable(map(symbols_of, self._formulas.values())):
            if name not in fixed:
                self._axes.setdefault(name, (self._ports[0], 0))
        self.symbols = [symbol for symbol in self._axes if symbol not in self._formulas]
        self._refuses = refuses
        self._forced: dict[str, int] | None = None  # the sizes of symbols that have no choice

    def first(self) -> Iterator[Sizes]:
        """Proposals for the first run."""
        if self._forced is None:
            self._forced = dict(self._without_choice())
        preferred = {symbol: self._preferred(symbol)[0] for symbol in self.symbols}
        self._make_distinct(preferred)
        single = {
            symbol: 1 if self._is_batch(symbol) else size for symbol, size in preferred.items()
        }
        for base in (preferred, single):
            yield from self._totals(base)
            yield from self._complete(base)
        # 2 comes first: a Slice of a dimension of 1 may be empty, and a Concat of empty values may
        # have uninitialized elements
        for size in (2, 1):
            same = {symbol: 2 if self._is_rank(symbol) else size for symbol in self.symbols}
            yield from self._complete(same)
        for base in (preferred, single):
            for symbol in self._all(0):
                for size in self._likely:
                    yield from self._complete({**base, symbol: size})
        yield from self._ladders(preferred)

    def _ladders(self, preferred: Sizes) -> Iterator[Sizes]:
        """Proposals that set all symbols to one size, then all except batches, and then a single
        symbol.
        """
        for size in _LADDER:
            yield from self._complete({**preferred, **self._all(size)})
        for size in _LADDER:
            others = {s: size for s in self._all(size) if not self._is_batch(s)}
            yield from self._complete({**preferred, **others})
        for symbol in self.symbols:
            for size in _RANKS if self._is_rank(symbol) else _LADDER:
                yield from self._complete({**preferred, symbol: size})

    def _all(self, size: int) -> dict[str, int]:
        """All symbols, except ranks, with this size."""
        return {symbol: size for symbol in self.symbols if not self._is_rank(symbol)}

    def _plain(self) -> list[str]:
        """The symbols that are neither ranks nor batches."""
        return [symbol for symbol in self._all(0) if not self._is_batch(symbol)]

    def _without_choice(self) -> Iterator[tuple[str, int]]:
        """The symbols whose usual size is impossible, each with the most likely possible size.

        A symbol without any possible size is left out.
        """
        usual = {symbol: self._preferred(symbol)[0] for symbol in self.symbols}
        self._make_distinct(usual)
        if not self._refuses({**self._fixed, **usual}):
            return
        for symbol, size in usual.items():
            others = (
                sorted((*self._likely, *_LADDER), key=_is_trivial)
                if not self._is_rank(symbol)
                else _RANKS
            )
            if self._refuses({symbol: size}) and self._refuses({symbol: size + 1}):
                possible = (other for other in others if not self._refuses({symbol: other}))
                likeliest = next(possible, None)
                if likeliest is not None:
                    yield symbol, likeliest

    def lowered(self, sizes: Sizes) -> Iterator[Sizes]:
        """Proposals that set one symbol back to its usual size if it is larger in `sizes`.

        They help if the model needs large sizes only for the other symbols.
        """
        base = {symbol: sizes[symbol] for symbol in self.symbols}
        for symbol in self._all(0):
            usual = self._preferred(symbol)[0]
            if base[symbol] > usual:
                yield from self._complete({**base, symbol: usual})

    def second(self, first: Sizes) -> Iterator[Sizes]:
        """Proposals with another size for as many symbols as possible, given sizes that work."""
        other = {symbol: self._preferred(symbol)[1] for symbol in self._all(0)}
        if not other:
            return
        self._make_distinct(other)
        yield from self._varied(first, other)
        yield from self._varied(first, {symbol: first[symbol] * 2 for symbol in other})
        for chosen in (self._is_batch, lambda symbol: not self._is_batch(symbol)):
            yield from self._varied(
                first, {symbol: size for symbol, size in other.items() if chosen(symbol)}
            )
        for symbol, size in other.items():
            yield from self._varied(first, {symbol: size})

    def single(self, first: Sizes) -> Iterator[Sizes]:
        """Proposals with a batch of one, given sizes that work."""
        batches = {symbol: 1 for symbol in self.symbols if self._is_batch(symbol)}
        if batches:
            yield from self._varied(first, batches)

    def without_past(self, first: Sizes) -> Iterator[Sizes]:
        """The most likely proposal with an empty cache, as in the first step of a decoder, based on
        sizes that work. Nothing for a model without a cache.
        """
        past = {
            symbol: 0 for symbol in self.symbols if self._axes[symbol][1] > 0 and _is_past(symbol)
        }
        if past:
            yield from islice(self._varied(first, past), 1)

    def _varied(self, first: Sizes, changes: Sizes) -> Iterator[Sizes]:
        base = {symbol: first[symbol] for symbol in self.symbols}
        changed = {**base, **changes}
        # If one symbol is the sum of two others in `first`, proposals that keep this sum come
        # first.
        for total, a, b in self._sums(base):
            if total not in changes or changed[total] != changed[a] + (changed[b] if b else 1):
                yield from self._complete({**changed, total: changed[a] + (changed[b] if b else 1)})
        yield from self._complete(changed)

    def _sums(self, sizes: Sizes) -> Iterator[tuple[str, str, str]]:
        plain = self._plain()
        for total in plain:
            others = [symbol for symbol in plain if symbol != total]
            for a, b in (*combinations(others, 2), *((other, "") for other in others)):
                if sizes[total] == sizes[a] + (sizes[b] if b else 1):
                    yield total, a, b

    def _totals(self, base: Sizes) -> Iterator[Sizes]:
        """Sizes in which one symbol is the sum of two others: a mask over past and new tokens."""
        plain = self._plain()
        for total in list(filter(_TOTAL.search, plain)) or plain:
            others = [symbol for symbol in plain if symbol != total]
            for past in filter(_PAST.search, others):
                for new in (symbol for symbol in others if symbol != past):
                    yield from self._complete({**base, total: base[past] + base[new]})
                yield from self._complete({**base, total: base[past] + 1})

    def _complete(self, sizes: Sizes) -> Iterator[Sizes]:
        """The sizes, with fixed and computed symbols added. Nothing if a size is negative or too
        large.
        """
        result = {**sizes, **self._fixed}
        for symbol, tree in self._formulas.items():
            value = evaluate(tree, result)
            if value is None or value < 0:
                return
            result[symbol] = value
        for port in self._ports:
            elements = 1
            for size in shape_at(port, result):
                elements *= size
            if elements > max(_MOST_ELEMENTS, 4 * _declared_elements(port)):
                return
        yield result

    def _preferred(self, symbol: str) -> tuple[int, int]:
        """The first and the second size of a symbol."""
        if self._forced is not None and symbol in self._forced:
            return self._forced[symbol], self._forced[symbol]
        port, axis = self._axes[symbol]
        rank = len(port.dims or ())
        if axis < 0:
            return 2, 3
        if rank > 4:
            return (2, 3) if axis % 2 == 0 else (3, 2)
        if self._is_batch(symbol):
            return 2, 3
        is_image_side = "[" in symbol and rank == 4 and axis >= 2
        return _sizes_by_name(symbol) or ((_HEIGHT, _WIDTH)[axis - 2] if is_image_side else (8, 5))

    def _make_distinct(self, sizes: dict[str, int]) -> None:
        """Give different symbols different sizes, so that exchanged dimensions are noticed.

        Proposals with equal sizes come later.
        """
        taken: set[int] = set()
        for symbol, size in sizes.items():
            port, axis = self._axes[symbol]
            is_small = size < 64 and len(port.dims or ()) <= 4
            if axis < 0 or self._is_batch(symbol) or not is_small or symbol in (self._forced or {}):
                continue
            while size in taken:
                size += 1
            taken.add(size)
            sizes[symbol] = size

    def _is_rank(self, symbol: str) -> bool:
        return self._axes[symbol][1] < 0

    def _is_batch(self, symbol: str) -> bool:
        """Whether the name of a symbol is that of a batch, or the symbol is a first dimension whose
        name does not say what it counts.
        """
        name = symbol.lower()
        if re.search("batch|^bs?z?$|^n$", name):
            return True
        return self._axes[symbol][1] == 0 and not re.search(
            "seq|len|time|tok|past|total|height|width|^[a-z]$", name
        )


def _sizes_by_name(symbol: str) -> tuple[int, int] | None:
    return next((sizes for name, sizes in _BY_NAME.items() if name.search(symbol)), None)


def _axes(ports: Iterable[Port], fixed: Sizes) -> Iterator[tuple[str, tuple[Port, int]]]:
    """The symbols that are not fixed, each with the input and axis that declare it first."""
    seen = set(fixed)
    for port in ports:
        for axis, symbol in _symbols(port):
            if symbol not in seen:
                seen.add(symbol)
                yield symbol, (port, axis)


def _symbols(port: Port) -> Iterator[tuple[int, str]]:
    """The symbols of an input, each with its axis: -1 for its rank."""
    if port.dims is None:
        yield -1, rank_symbol(port)
    for axis, dim in enumerate(port.dims or ()):
        if isinstance(dim, str):
            yield axis, dim


def _is_trivial(size: int) -> bool:
    """Whether exchanged and repeated elements cannot be noticed at such a size."""
    return size < 2


def _is_past(symbol: str) -> bool:
    """Whether the name of a symbol says that it counts past tokens.

    A dimension without a name gets a symbol that ends in "]" and contains the name of its input.
    That name says nothing about the dimension.
    """
    return bool(_PAST.search(symbol)) and not symbol.endswith("]")


def _declared_elements(port: Port) -> int:
    elements = 1
    for dim in port.dims or ():
        elements *= dim if isinstance(dim, int) else 1
    return elements
