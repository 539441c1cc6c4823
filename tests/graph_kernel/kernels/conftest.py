import sys
from pathlib import Path

import pytest

from fusionc.graph_kernel.kernels import compile

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def _needs_a_compiler() -> None:
    try:
        compile.compiler()
    except compile.NoCompiler as missing:
        pytest.skip(str(missing))
