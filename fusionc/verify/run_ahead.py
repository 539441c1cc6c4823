"""The reference on the samples that are drawn, before the candidate is opened: one session at a time is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from time import monotonic

import numpy as np

from fusionc.runtime.runner import Runner
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.inputs.search import DrawnSample

MOST_KEPT = 64 << 20  # bytes of inputs and outputs
_SECONDS = 10.0


def run_ahead(samples: Iterator[DrawnSample], reference: Runner) -> Iterator[DrawnSample]:
    """The same samples. Where what they hold is small, and comes soon, all are run now, and the reference is closed
    until it is needed again."""
    kept, room, begin = list[DrawnSample](), MOST_KEPT, monotonic()
    for sample in samples:
        kept.append(sample)
        room -= bytes_of(sample)
        if room < 0 or monotonic() - begin > _SECONDS:
            return chain(kept, samples)
    reference.close()
    return iter(kept)


def bytes_of(sample: Sample) -> int:
    """The bytes of the tensors that a sample holds; of one with something else, more than are kept."""
    values = (*sample.feeds.values(), *sample.outputs)
    return sum(value.nbytes if isinstance(value, np.ndarray) else MOST_KEPT + 1 for value in values)
