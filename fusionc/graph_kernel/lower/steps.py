"""Steps: the operations that compute one element. They are functions of the variables of loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fusionc.graph_kernel.lower.c_types import CType, literal
from fusionc.graph_kernel.lower.index import Index, Variable
from fusionc.graph_kernel.lower.symbolic_sizes import Size


@dataclass(frozen=True)
class Access:
    """An element of a tensor."""

    tensor: str  # the name of an input, output or constant
    index: Index


@dataclass(frozen=True)
class Reduction:
    """A way to reduce elements to one.

    `start` and `combine` are C expressions. In `combine`, {0} is the result so far, and {1} is the
    next element. `clause` is the name of the reduction in an OpenMP clause, which allows the
    compiler to combine several elements at once.
    """

    start: str
    combine: str
    clause: str


@dataclass(frozen=True, eq=False)
class Step:
    """A value of C type `ctype.local`.

    `template` is its C expression; {0}, {1} … are the arguments. If the step loads an element, it
    has an `access`. If it has a `reduction`, it reduces its argument over all variables of the row.
    If it is the size of a tensor, it has a `size`. A scalar (`is_scalar`) is a literal that the C
    function gets as a parameter. `cost` is the time for one element, in sixteenths of a nanosecond.
    """

    number: int
    ctype: CType
    template: str
    arguments: tuple[Step, ...]
    variables: frozenset[Variable]
    cost: int
    access: Access | None = None
    reduction: Reduction | None = None
    size: Size | None = None
    is_scalar: bool = False

    @property
    def constant(self) -> str | None:
        """The text of the literal. `None` if the step is not a literal."""
        return (
            self.template
            if self.template and not (self.arguments or self.variables or self.access)
            else None
        )


@dataclass
class Steps:
    """All steps of a nest. Arguments come before the steps that use them. Equal steps are only made
    once.
    """

    made: list[Step] = field(default_factory=list)
    _known: dict[object, Step] = field(default_factory=dict)

    def copy(self) -> Steps:
        """A copy, for returning to this state if later additions fail."""
        return Steps(self.made.copy(), self._known.copy())

    def op(self, ctype: CType, template: str, *arguments: Step, cost: int = 1) -> Step:
        """A step that computes a C expression of other steps. `template` and `cost` are explained
        in `Step`.

        In the template, $ is replaced by the name of the C type, and @ is replaced by the suffix
        that functions of the C library have for this type: "gk_exp_$({0}, machine)", "sqrt@({0})".
        """
        template = template.replace("$", ctype.name).replace(
            "@", "f" if ctype.name == "f32" else ""
        )
        variables = frozenset[Variable]().union(*(a.variables for a in arguments))
        return self._make(
            (ctype.name, template, arguments), ctype, template, arguments, variables, cost
        )

    def literal(self, ctype: CType, value: np.generic | float) -> Step:
        """A number that is written into the C text."""
        return self.op(ctype, literal(ctype, value), cost=0)

    def scalar(self, ctype: CType, value: np.generic | float) -> Step:
        """A number from the model. If it is a float, it becomes a parameter of the C function. So
        areas that differ only in such numbers share the function.
        """
        if not ctype.is_float:
            return self.literal(ctype, value)
        text = literal(ctype, value)
        return self._make(
            (ctype.name, "scalar", text), ctype, text, (), frozenset(), 0, is_scalar=True
        )

    def size(self, ctype: CType, size: Size) -> Step:
        """The size of a tensor. It is a literal if it is known."""
        if size.number is not None:
            return self.literal(ctype, size.number)
        return self._make((ctype.name, size), ctype, "", (), frozenset(), 0, size=size)

    def load(self, ctype: CType, access: Access) -> Step:
        """An element of a tensor, read from memory."""
        variables = access.index.variables
        return self._make((ctype, access), ctype, ctype.load, (), variables, 2, access)

    def reduce(
        self, ctype: CType, reduction: Reduction, step: Step, row: Sequence[Variable]
    ) -> Step:
        """A step, reduced over all variables of the row."""
        variables = step.variables - frozenset(row)
        return self._make(
            (ctype.name, reduction, step), ctype, "", (step,), variables, 2, None, reduction
        )

    def _make(
        self,
        key: object,
        ctype: CType,
        template: str,
        arguments: tuple[Step, ...],
        variables: frozenset[Variable],
        cost: int,
        access: Access | None = None,
        reduction: Reduction | None = None,
        size: Size | None = None,
        is_scalar: bool = False,
    ) -> Step:
        if key not in self._known:
            number = len(self.made)
            step = Step(
                number,
                ctype,
                template,
                arguments,
                variables,
                cost,
                access,
                reduction,
                size,
                is_scalar,
            )
            self._known[key] = step
            self.made.append(step)
        return self._known[key]
