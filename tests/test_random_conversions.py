"""What benchmarks/random_conversions.py counts, and what it calls a finding."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import random_conversions


@pytest.mark.parametrize(
    "complaint, is_fatal, count",
    [
        (None, False, "as the original"),
        ("does not run: too large", False, "refused"),
        ("numbers", False, "otherwise"),
        ("dies", True, "died"),
        ("dies", False, ""),
    ],
)
def test_a_death_at_contradicting_sizes_hides_no_finding(
    complaint: str | None, is_fatal: bool, count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`is_fatal` says that the original kills the process, too."""

    def differ(*_: object) -> str | None:
        return os.kill(os.getpid(), signal.SIGKILL) if complaint == "dies" else complaint

    plan = object.__new__(random_conversions.Conversion)
    plan.counts = Counter()
    plan.model = None
    monkeypatch.setattr(plan, "sessions_differ", differ)
    monkeypatch.setattr(random_conversions, "kills_by_itself", lambda _: is_fatal)
    fault = plan.count_contradictions(None)
    assert (fault is None) == bool(count) and plan.counts == Counter(filter(None, [count]))
