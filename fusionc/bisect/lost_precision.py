"""Find the convolutions and matrix products (here, both are called products) that must stay in
float32, because they change an output by more than the allowed bound if they are computed in
bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.attempt.asked_model import AskedModel, ReferenceModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut, attempt
from fusionc.attempt.verdict import losses_of
from fusionc.disk.save import save
from fusionc.verify.precision_loss import PrecisionLosses

_MOST = 8  # products that are found one by one; after so many, all others stay in float32


def keep_in_float32(
    model: AskedModel,
    done: ConversionAttempt,
    losses: PrecisionLosses,
    reference: ReferenceModel,
    left_out: LeftOut,
) -> None:
    """Find the products that must stay in float32, so that an attempt with all others in bfloat16
    keeps the bound. Add them to `left_out`. `losses` are the losses with all products in bfloat16.

    Products are taken in order. The next product that is found is the first one that breaks the
    bound when it and all products before it, except those found already, are in bfloat16.
    """
    assert done.fused is not None
    products = dict.fromkeys(map(model.plan.kept.name_of, done.fused.narrow))
    search = _Search(model, reference, left_out, list(products))
    while not losses.is_within and search.products:
        last, costs = search.first_bad(losses)
        left_out.wide[search.products.pop(last)] = str(costs)
        if len(left_out.wide) == _MOST:
            left_out.wide |= dict.fromkeys(search.products[last:], "")
            return
        losses = search.losses(len(search.products))


@dataclass(frozen=True)
class _Costs:
    """The losses with one product in bfloat16, and the losses with the same product in float32."""

    with_it: PrecisionLosses
    without: PrecisionLosses

    def __str__(self) -> str:
        if self.with_it.fault or self.with_it.worst is None:
            return self.with_it.fault
        without = self.without.worst
        return f"off by {self.with_it.worst} with this product in bfloat16" + (
            f", and by {without} with it in float32" if without is not None else ""
        )


@dataclass
class _Search:
    model: AskedModel
    reference: ReferenceModel
    left_out: LeftOut
    products: list[str]  # the names of the products that may be computed in bfloat16, in order
    runs: int = 0

    def first_bad(self, losses: PrecisionLosses) -> tuple[int, _Costs]:
        """The index of the first product that breaks the bound when it and all products before it
        are in bfloat16, and the losses with and without it. `losses` are the losses with all
        products.
        """
        good = 0
        bad = len(self.products)
        costs = _Costs(losses, PrecisionLosses(losses.samples, (), losses.bound))
        while bad - good > 1:
            middle = (good + bad) // 2
            tried = self.losses(middle)
            if tried.is_within:
                good = middle
                costs = _Costs(costs.with_it, tried)
            else:
                bad = middle
                costs = _Costs(tried, costs.without)
        return bad - 1, costs

    def losses(self, count: int) -> PrecisionLosses:
        """The losses with the first `count` products in bfloat16, and all others in float32."""
        self.runs += 1
        options = self.model.plan.options
        options.progress(f"looking for products that lose too much in bfloat16: run {self.runs}")
        wide = dict.fromkeys(self.products[count:], "") | self.left_out.wide
        trial = LeftOut(dict(self.left_out.rewrites), set(self.left_out.passes), wide)
        done = attempt(self.model.plan, self.model.rebuild(), trial)
        kernels = self.model.plan.kernels.file
        if kernels is None:  # no kernel is left, because no area saves time without these products
            return PrecisionLosses(0, (), options.precision_error)
        with save(done.proto, options.source.parent, options.destination) as saved:
            return losses_of(saved.model, kernels, self.reference, self.model.plan)
