import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

for folder in (".", "model"):  # so that every test finds `harness` and `everything`
    sys.path.insert(0, str(Path(__file__).parent / folder))

# These signals may be ignored: in the background of a shell, or under nohup. Commands that tests
# start would inherit that.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    """Let commands that tests start reuse the bytecode of fusionc, even if no bytecode may be
    written next to the source.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        folder = tempfile.TemporaryDirectory(prefix="fusionc-bytecode-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection, which would scan them repeatedly and take
    a fifth of the time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_log_in_the_home_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set a folder for the log, for tests that do not set one themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path_factory.mktemp("log")))
        yield


@pytest.fixture
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an empty folder the current folder, and write the log there, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))


@pytest.fixture(scope="session")
def needs_a_compiler() -> None:
    """Skip a test of kernels if there is no compiler: areas are then only functions."""
    from fusionc.graph_kernel.c.compile import NoCompiler, compiler

    try:
        compiler()
    except NoCompiler as missing:
        pytest.skip(str(missing))
