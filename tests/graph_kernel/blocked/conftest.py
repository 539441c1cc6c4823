"""Fixtures for the tests of blocked areas. A module's own fixture `found` has its areas by name."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from networks import Found
from standalone_programs import Standalone

from fusionc.graph_kernel.library.build_library import build


@pytest.fixture(scope="module")
def programs(found: dict[str, Found], tmp_path_factory: pytest.TempPathFactory) -> Standalone:
    """The programs of a module's areas, without onnxruntime."""
    return Standalone(
        [one.area for one in found.values()], tmp_path_factory.mktemp("programs"), ["-O0"]
    )


@pytest.fixture(scope="module")
def library(found: dict[str, Found]) -> Path:
    """The kernels of a module's areas."""
    return build([one.area for one in found.values()]).library
