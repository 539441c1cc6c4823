"""Write loop nests as C functions."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Sequence
from functools import cached_property

from fusionc.graph_kernel.c.row_stride import row_stride
from fusionc.graph_kernel.lower.area_info import AreaInfo
from fusionc.graph_kernel.lower.c_types import CType
from fusionc.graph_kernel.lower.index import Variable
from fusionc.graph_kernel.lower.loop_nest import LoopNest
from fusionc.graph_kernel.lower.loop_schedule import HEAVY, LoopParts, LoopSchedule
from fusionc.graph_kernel.lower.lowering import Store
from fusionc.graph_kernel.lower.steps import Access, Step
from fusionc.operators.polynomials import ONE, ZERO

_CHOICE = re.compile(r"\?|gk_(max|min)_")  # expressions that choose between two numbers
_WAVE = re.compile(r"gk_(sin|cos)_f32\(")
_OPERAND_OF_WAVE = re.compile(r"gk_(?:sin|cos)_f32\((.+?), machine\)")
_REDUCED = re.compile(r": (v\d+)\)")  # variables in the reduction clauses of a loop
_NAME = "GK_NAME"  # replaced by the function's name when the text is complete
_BLOCK = 512  # elements between the parts of a loop: so few that they stay in the nearest cache
_STRIP = 32  # elements between two prefetches: a few cache lines


class LoopNestText:
    """The C code of one loop nest. The names of its tables begin with `name`. `tensors` are the
    names of the kernel's tensors, in order.
    """

    def __init__(self, name: str, nest: LoopNest, info: AreaInfo, tensors: Sequence[str]) -> None:
        self.name = name
        self._info = info
        self._tensors = tensors
        self.divisible = not nest.row
        if nest.row:
            self.grid = nest.grid
            self.row = nest.row
        else:  # the innermost loop counts as the row, which can be divided between threads
            self.grid = nest.grid[:-1]
            self.row = nest.grid[-1:] or (Variable(ONE),)
        self._schedule = LoopSchedule(nest.stores, frozenset(self.row))
        self._stores: dict[int, Store] = {}
        self.accesses: list[Access] = []
        for step in self._schedule.of:
            if step.access and step.access not in self.accesses:
                self.accesses.append(step.access)
        self._loads = len(self.accesses)
        for store in nest.stores:
            self._stores[len(self.accesses)] = store
            self.accesses.append(store.access)
        self._strides = [
            row_stride(access.index.factor(self.row[-1]), info.sizes) for access in self.accesses
        ]
        self.scalars = [step for step in self._schedule.of if step.is_scalar]
        self.numbers = list(
            dict.fromkeys(step.size for step in self._schedule.of if step.size is not None)
        )

    @cached_property
    def function(self) -> str:
        """The prefix of the names of the nest's functions. Equal functions have equal names."""
        return "gk_" + hashlib.sha256(self._body.encode()).hexdigest()[:12]

    def body(self) -> str:
        """The C function that computes some rows, in versions for several processors.

        Sizes are parameters of the function, so that nests that differ only in sizes share it.
        """
        return self._body.replace(_NAME, self.function)

    @cached_property
    def _body(self) -> str:
        strides = ", ".join(f"const ptrdiff_t t{a}" for a in range(len(self.accesses)))
        head = (
            f"GK_INLINE void {_NAME}_body(GK_PARAMETERS, const gk_machine machine, {strides}) {{\n"
        )
        lines = []
        if not self.divisible:
            outer = [f"q->extent[{len(self.grid) + k}]" for k in range(len(self.row) - 1)]
            lines.append(f"const ptrdiff_t length = {' * '.join([*outer, 'n'])};")
        if self._schedule.passes.kept:
            lines += self._buffers()
        lines += self._hidden()
        lines += ["for (ptrdiff_t j = 0; j < rows; ++j) {", *_indented(self._one_row()), "}"]
        last = len(self.grid) + len(self.row) - 1
        general = [f"q->stride[{a}][{last}]" for a in range(len(self.accesses))]
        fast = [
            stride if s.varies else str(s.unit)
            for stride, s in zip(general, self._strides, strict=True)
        ]
        bodies = f"{_NAME}, GK_LIST({', '.join(fast)})"
        if any(stride.may_broadcast for stride in self._strides):
            bodies = f"GK_BODIES_AND_ANY({bodies}, GK_LIST({', '.join(general)}))"
        else:
            bodies = f"GK_BODIES({bodies})"
        return head + "\n".join(_indented(lines)) + "\n}\n" + bodies + "\n"

    def form(self, first_scalar: int) -> tuple[str, str]:
        """The table of accesses, and the initializer of the gk_form.

        `first_scalar` is the index of this nest's first scalar among all scalars of the kernel.
        """
        rows = []
        for access, stride in zip(self.accesses, self._strides, strict=True):
            tensor = self._tensors.index(access.tensor)
            dtype_bytes = self._ctype(access).bytes
            its = (
                tensor,
                dtype_bytes,
                stride.unit,
                int(stride.varies),
                int(self._is_rowwise(access)),
            )
            rows.append(f"{{{', '.join(map(str, its))}}}")
        table = f"static const gk_access {self.name}_accesses[] = {{{', '.join(rows)}}};\n"
        values = (
            f"{self.function}_bodies",
            f"{self.name}_accesses",
            len(rows),
            len(self.grid),
            len(self.row),
            int(self.divisible),
            sum(_bytes(step) for step in self._schedule.passes.kept),
            self.cost,
            first_scalar,
        )
        return table, f"{{{', '.join(map(str, values))}}}"

    def plan(self, number: int) -> list[str]:
        """The C statements that set all sizes, and all strides and offsets that are not 0."""
        lines = [
            f"q[{number}].extent[{k}] = {v.extent};" for k, v in enumerate(self.grid + self.row)
        ]
        for a, access in enumerate(self.accesses):
            if access.index.offset != ZERO:
                lines.append(f"q[{number}].offset[{a}] = {access.index.offset};")
            for variable, size in access.index.terms:
                lines.append(
                    f"q[{number}].stride[{a}][{(self.grid + self.row).index(variable)}] = {size};"
                )
        lines += [f"q[{number}].number[{k}] = {size};" for k, size in enumerate(self.numbers)]
        return lines

    @property
    def cost(self) -> int:
        """The time for an element, in sixteenths of a nanosecond."""
        return sum(step.cost for step in self._schedule.of) + 2 * len(self._stores)

    @property
    def cost_once(self) -> int:
        """The part of `cost` that is needed only once for each row."""
        return sum(step.cost for step in self._schedule.of if not self._schedule.is_rowwise(step))

    def _ctype(self, access: Access) -> CType:
        return self._info.ctype(access.tensor)

    def _is_rowwise(self, access: Access) -> bool:
        return bool(access.index.variables & set(self.row))

    def _buffers(self) -> list[str]:
        lines = []
        offset = 0
        # The largest elements come first, so that each buffer is aligned.
        for step in sorted(self._schedule.passes.kept, key=lambda s: -_bytes(s)):
            local = step.ctype.local
            lines.append(
                f"{local} *const b{step.number} = ({local} *)(scratch + {offset} * length);"
            )
            offset += _bytes(step)
        return lines

    def _hidden(self) -> list[str]:
        """C variables for scalars, and for literals whose values the compiler must not see."""
        hidden = dict.fromkeys(
            a for step in self._schedule.of for a in step.arguments if _hides(step, a)
        )
        scalars = [
            f"const {step.ctype.local} u{step.number} = ({step.ctype.local})q->scalar[{k}];"
            for k, step in enumerate(self.scalars)
        ]
        return scalars + [
            f"{a.ctype.local} k{a.number} = {a.constant}; GK_HIDE(k{a.number});" for a in hidden
        ]

    def _one_row(self) -> list[str]:
        lines = []
        for a, access in enumerate(self.accesses):
            stored = self._ctype(access).stored
            const = "const " if a < self._loads else ""
            row = f" + j * q->stride[{a}][{len(self.grid) - 1}]" if self.grid else ""
            lines.append(f"{const}{stored} *const p{a} = ({const}{stored} *)base[{a}]{row};")
        for phase in range(self._schedule.count):
            lines += self._row_steps(phase)
            if self._schedule.roots(phase):
                lines += self._pass(phase)
        return lines

    def _row_steps(self, phase: int) -> list[str]:
        """The steps and stores of a phase (a pass over the row) that are computed once for the
        row.
        """
        schedule = self._schedule
        steps = [s for s, its in schedule.of.items() if its == phase and not schedule.is_rowwise(s)]
        lines = [self._assign(s) for s in steps if s.constant is None and not s.reduction]
        for a, store in self._stores.items():
            if schedule.of[store.step] == phase and not schedule.is_stored_in_row(store):
                lines.append(f"*p{a} = {self._stored(a, store.step)};")
        return lines

    def _pass(self, phase: int) -> list[str]:
        """A loop over the row. If the loop has several parts, a loop over blocks of the row, which
        contains an inner loop for each part.
        """
        before = []
        for step in self._schedule.reductions(phase):
            assert step.reduction
            before.append(f"{step.ctype.local} v{step.number} = {step.reduction.start};")
        parts = LoopParts(self._schedule, phase)
        if (
            self.divisible
            and self._may_be_long()
            and all(step.cost < HEAVY for step in self._schedule.of)
        ):
            return self._strips(parts, phase)
        if parts.count == 1:
            return before + self._nested(self._part_of_loop(parts, 0, phase, "0", "n"), phase)
        block = [f"const ptrdiff_t end = n - begin < {_BLOCK} ? n : begin + {_BLOCK};"]
        block += [f"{step.ctype.local} w{step.number}[{_BLOCK}];" for step in parts.passes.kept]
        for part in range(parts.count):
            block += self._part_of_loop(parts, part, phase, "begin", "end")
        blocks = [
            f"for (ptrdiff_t begin = 0; begin < n; begin += {_BLOCK}) {{",
            *_indented(block),
            "}",
        ]
        return before + self._nested(blocks, phase)

    def _may_be_long(self) -> bool:
        """Whether a row may be long, counted together with the surrounding loops that can be joined
        with it.
        """
        loops = self.grid + self.row
        length = loops[-1].extent
        for outer, inner in zip(reversed(loops[:-1]), reversed(loops), strict=False):
            if any(
                x.index.factor(outer) != x.index.factor(inner) * inner.extent for x in self.accesses
            ):
                break
            length *= outer.extent
        return length.number is None or length.number >= _BLOCK

    def _strips(self, parts: LoopParts, phase: int) -> list[str]:
        """The loop over a row without reductions. A long row is divided into strips; before each
        strip is computed, elements of later strips are prefetched.
        """
        ahead = [
            f"GK_AHEAD(p{a} + at, t{a}, {_STRIP});"
            for a, x in enumerate(self.accesses)
            if self._is_rowwise(x)
        ]
        return [
            "ptrdiff_t at = 0;",
            f"const ptrdiff_t end = GK_IS_LONG(n, {_BLOCK}, machine) ? n - n % {_STRIP} : 0;",
            f"for (; at < end; at += {_STRIP}) {{",
            *_indented(ahead + self._part_of_loop(parts, 0, phase, "at", f"at + {_STRIP}")),
            "}",
            *self._part_of_loop(parts, 0, phase, "at", "n"),
        ]

    def _part_of_loop(
        self, parts: LoopParts, part: int, phase: int, begin: str, end: str
    ) -> list[str]:
        steps = parts.passes.within(part)
        inner = self._inner_steps(parts, part, phase)
        reductions = [
            step
            for step in self._schedule.reductions(phase)
            if parts.of.get(step.arguments[0], 0) == part
        ]
        clauses = ""
        for step in reductions:
            assert step.reduction
            clauses += f" reduction({step.reduction.clause} : v{step.number})"
            operand = self._operand(step.arguments[0])
            result = step.reduction.combine.format(f"v{step.number}", operand)
            inner.append(f"v{step.number} = {result};")
        inner += self._inner_stores(parts, part, phase)
        loop = f"for (ptrdiff_t i = {begin}; i < {end}; ++i) {{"
        # Each addition to a sum must wait for the addition before. With several vectors of sums,
        # the additions need not wait for each other.
        if clauses and all(s.ctype.name == "f32" and s.cost < HEAVY for s in steps):
            clauses = f" simdlen(32){clauses}"
        return _simd(clauses, loop, inner)

    def _inner_steps(self, parts: LoopParts, part: int, phase: int) -> list[str]:
        """The steps of one part of a loop. They are either computed, or read from the buffer that
        an earlier part or pass has filled.
        """
        lines = list[str]()
        for step in parts.passes.within(part):
            if parts.passes.reads(step, part):
                lines.append(
                    f"const {step.ctype.local} v{step.number} = w{step.number}[i - begin];"
                )
            elif self._schedule.passes.reads(step, phase):
                lines.append(f"const {step.ctype.local} v{step.number} = {self._buffer(step)}[i];")
            elif step.constant is None:
                lines.append(self._assign(step))
        return lines

    def _inner_stores(self, parts: LoopParts, part: int, phase: int) -> list[str]:
        """The stores in one part of a loop: outputs, and steps that later passes or parts read."""
        schedule = self._schedule
        own = {step for step, its in schedule.of.items() if its == phase}
        own = {step for step in own if parts.of.get(step, 0) == part}
        lines = [
            f"{self._pointer(a)}[i * t{a}] = {self._stored(a, store.step)};"
            for a, store in self._stores.items()
            if store.step in own and schedule.is_stored_in_row(store)
        ]
        lines += [
            f"{self._buffer(step)}[i] = v{step.number};"
            for step in schedule.passes.kept
            if step in own
        ]
        return lines + [
            f"w{s.number}[i - begin] = v{s.number};"
            for s in parts.passes.kept
            if parts.of[s] == part
        ]

    def _nested(self, loop: list[str], phase: int) -> list[str]:
        """The loops over all variables of a row except the last one. `loop`, which is over the last
        one, is inside them.
        """
        outer = len(self.row) - 1
        if not outer:
            return loop
        pointers = []
        for a, access in enumerate(self.accesses):
            if self._is_rowwise(access):
                steps = "".join(
                    f" + r{k} * q->stride[{a}][{len(self.grid) + k}]" for k in range(outer)
                )
                const = "const " if a < self._loads else ""
                pointers.append(f"{const}{self._ctype(access).stored} *const o{a} = p{a}{steps};")
        at = "r0"
        for k in range(1, outer):
            at = f"({at} * q->extent[{len(self.grid) + k}] + r{k})"
        for step in self._schedule.passes.kept:
            pointers.append(
                f"{step.ctype.local} *const c{step.number} = b{step.number} + {at} * n;"
            )
        lines = pointers + loop
        for k in reversed(range(outer)):
            extent = f"q->extent[{len(self.grid) + k}]"
            lines = [
                f"for (ptrdiff_t r{k} = 0; r{k} < {extent}; ++r{k}) {{",
                *_indented(lines),
                "}",
            ]
        return lines

    def _pointer(self, a: int) -> str:
        return f"o{a}" if len(self.row) > 1 and self._is_rowwise(self.accesses[a]) else f"p{a}"

    def _buffer(self, step: Step) -> str:
        return f"{'c' if len(self.row) > 1 else 'b'}{step.number}"

    def _assign(self, step: Step) -> str:
        if step.access:
            a = self.accesses.index(step.access)
            at = f"{self._pointer(a)}[i * t{a}]" if self._is_rowwise(step.access) else f"*p{a}"
            value = step.template.format(at)
        elif step.size is not None:
            value = f"({step.ctype.local})q->number[{self.numbers.index(step.size)}]"
        else:
            operands = (
                f"k{a.number}" if _hides(step, a) else self._operand(a) for a in step.arguments
            )
            value = step.template.format(*operands)
        return f"const {step.ctype.local} v{step.number} = {value};"

    def _operand(self, step: Step) -> str:
        if step.is_scalar:
            return f"u{step.number}"
        if step.constant is not None:
            return (
                f"({step.ctype.local}){step.constant}"
                if step.constant[0] != "("
                else f"({step.constant})"
            )
        return f"v{step.number}"

    def _stored(self, a: int, step: Step) -> str:
        return self._ctype(self.accesses[a]).store.format(self._operand(step))


def _simd(clauses: str, loop: str, inner: list[str]) -> list[str]:
    """A loop that the compiler converts to vector instructions.

    For sines and cosines of numbers far from 0, the C library is needed, which does not use
    vectors. If such numbers occur, the whole loop is repeated number by number.
    """
    far_tests = dict.fromkeys(
        f"gk_is_far({operand})" for line in inner for operand in _OPERAND_OF_WAVE.findall(line)
    )
    if not far_tests:
        return [f"#pragma omp simd{clauses}", loop, *_indented(inner), "}"]
    near = [
        *(_WAVE.sub(r"gk_near_\1_f32(", line) for line in inner),
        f"far |= {' | '.join(far_tests)};",
    ]
    sums = _REDUCED.findall(clauses)
    again = [*(f"{name} = before_{name};" for name in sums), loop, *_indented(inner), "}"]
    lines = [
        "int far = 0;",
        *(f"const __typeof__({name}) before_{name} = {name};" for name in sums),
    ]
    lines += [f"#pragma omp simd{clauses} reduction(| : far)", loop, *_indented(near), "}"]
    return ["{", *_indented([*lines, "if (far) {", *_indented(again), "}"]), "}"]


def _hides(step: Step, argument: Step) -> bool:
    """Whether a literal must be hidden from the compiler, because it may be a bound.

    For a bound that it knows, the compiler would need an additional instruction.
    """
    is_literal = (
        argument.constant is not None and argument.ctype.is_float and not argument.is_scalar
    )
    return is_literal and bool(_CHOICE.search(step.template))


def _bytes(step: Step) -> int:
    return 8 if step.ctype.local in ("double", "int64_t") else 4


def _indented(lines: list[str]) -> list[str]:
    return [line if line.startswith("#") else textwrap.indent(line, "  ") for line in lines]
