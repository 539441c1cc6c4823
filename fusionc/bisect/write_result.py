"""Write the result of a trial (a conversion with only some of its rewrites) to files."""

from __future__ import annotations

from pathlib import Path

from fusionc.attempt.asked_model import AskedModel
from fusionc.attempt.attempt import ConversionAttempt
from fusionc.disk.save import save
from fusionc.graph_kernel.library.location import published


def write_result(model: AskedModel, done: ConversionAttempt, destination: Path) -> None:
    """Write a result with its weights and kernels. The result is not verified."""
    plan = model.plan
    source = plan.options.source
    with save(done.proto, source.parent, destination, plan.options.external_weight) as saved:
        model.finish(saved, done.proto, source.parent, None)
        saved.publish(published(plan.kernels.file, destination, source))
