import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def _needs_a_compiler() -> None:
    if not shutil.which("cc"):
        pytest.skip("no C compiler on this machine")
