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

# Ignored as in the background of a shell or behind nohup, which commands inherit.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    """The commands that tests start find fusionc compiled, also where no bytecode is to lie beside
    the source.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        folder = tempfile.TemporaryDirectory(prefix="fusionc-bytecode-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name


def pytest_collection_finish() -> None:
    """The collector would look at all tests again and again: a fifth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_log_in_the_home_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For tests that do not say themselves where the log is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path_factory.mktemp("log")))
        yield


@pytest.fixture
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is empty, and the log goes there, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))


@pytest.fixture(scope="session")
def needs_a_compiler() -> None:
    """Without one there are no kernels, only functions: what is asked of kernels cannot be seen
    then.
    """
    from fusionc.graph_kernel.c.compile import NoCompiler, compiler

    try:
        compiler()
    except NoCompiler as missing:
        pytest.skip(str(missing))
