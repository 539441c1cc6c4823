"""Find the nodes that must stay in float32, because they change an output by more than the allowed
bound if they are computed in bfloat16 or float16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from fusionc.attempt.asked_model import AskedModel, ReferenceModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut, attempt
from fusionc.attempt.verdict import losses_of
from fusionc.disk.save import save
from fusionc.verify.precision_loss import PrecisionLosses

_MOST = 8  # nodes that are found one by one; after these, all later nodes stay in float32


def keep_in_float32(
    model: AskedModel,
    done: ConversionAttempt,
    losses: PrecisionLosses,
    reference: ReferenceModel,
    left_out: LeftOut,
) -> None:
    """Find the convolutions and matrix products (here, both are called products) that must stay in
    float32, so that an attempt with all others in bfloat16 keeps the bound. Add them to `left_out`.
    `losses` are the losses with all products in bfloat16.
    """
    assert done.fused is not None
    options = model.plan.options

    def measure(wide: Collection[str]) -> PrecisionLosses:
        kept = dict.fromkeys(wide, "") | left_out.wide
        trial = LeftOut(dict(left_out.rewrites), set(left_out.passes), kept)
        tried = attempt(model.plan, model.rebuild(), trial)
        kernels = model.plan.kernels.file
        if kernels is None:  # no kernel is left, because no area saves time without these products
            return PrecisionLosses(0, (), options.precision_error)
        with save(tried.proto, options.source.parent, options.destination) as saved:
            return losses_of(saved.model, kernels, reference, model.plan)

    products = dict.fromkeys(map(model.plan.kept.name_of, done.fused.narrow))
    search = LossSearch(list(products), measure, "bfloat16", options.progress)
    left_out.wide |= search.find(losses)


@dataclass(frozen=True)
class _Costs:
    """The losses with a node in a lower precision, and with the same node in float32."""

    precision: str
    with_it: PrecisionLosses
    without: PrecisionLosses

    def __str__(self) -> str:
        if self.with_it.fault or self.with_it.worst is None:
            return self.with_it.fault
        without = self.without.worst
        return f"off by {self.with_it.worst} with this node in {self.precision}" + (
            f", and by {without} with it in float32" if without is not None else ""
        )


@dataclass
class LossSearch:
    """Takes nodes in order. The next node that it finds is the first one that breaks the bound when
    it and all nodes before it, except those found already, are in a lower precision.
    """

    names: list[str]  # of the nodes that may have a lower precision, in order
    # the losses if these nodes stay in float32
    measure: Callable[[Collection[str]], PrecisionLosses]
    precision: str  # the lower one
    progress: Callable[[str], None]
    runs: int = 0
    _wide: dict[str, str] = field(default_factory=dict)

    def find(self, losses: PrecisionLosses) -> Mapping[str, str]:
        """The nodes that must stay in float32 so that the others keep the bound, each with its
        cost, or "" if that was not measured for this node alone. `losses` are the losses with all
        nodes in the lower precision.
        """
        while not losses.is_within and self.names:
            last, costs = self._first_bad(losses)
            self._wide[self.names.pop(last)] = str(costs)
            if len(self._wide) == _MOST:
                self._wide |= dict.fromkeys(self.names[last:], "")
                break
            losses = self._losses(len(self.names))
        return self._wide

    def _first_bad(self, losses: PrecisionLosses) -> tuple[int, _Costs]:
        """The index of the first node that breaks the bound when it and all nodes before it are in
        the lower precision, and the losses with and without it. `losses` are the losses with all
        nodes.
        """
        good = 0
        bad = len(self.names)
        with_it = losses
        without = PrecisionLosses(losses.samples, (), losses.bound)
        while bad - good > 1:
            middle = (good + bad) // 2
            tried = self._losses(middle)
            if tried.is_within:
                good = middle
                without = tried
            else:
                bad = middle
                with_it = tried
        return bad - 1, _Costs(self.precision, with_it, without)

    def _losses(self, count: int) -> PrecisionLosses:
        """The losses with the first `count` nodes in the lower precision, the others in float32."""
        self.runs += 1
        self.progress(f"looking for nodes that lose too much in {self.precision}: run {self.runs}")
        return self.measure(dict.fromkeys(self.names[count:], "") | self._wide)
