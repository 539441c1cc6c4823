"""A process that ends instead of answering."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusionc.batch.converting_process import check, end_processes
from fusionc.errors import FusioncError


def test_one_that_is_killed(tmp_path: Path) -> None:
    """As a system does that has no memory left."""
    file = tmp_path / "deadly.py"
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(FusioncError, match="a converting process ends at once: something has killed it, as systems do"):
        check({"custom_passes": (file,)}, "run")


def test_no_run_begins_anew_once_it_is_over() -> None:
    end_processes("over")
    with pytest.raises(FusioncError, match="the run is over"):
        check({}, "over")
