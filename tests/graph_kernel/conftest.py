import pytest

from fusionc.graph_kernel.kernels import NoCompiler, compiler


@pytest.fixture(scope="session")
def needs_a_compiler() -> None:
    """Without one there are no kernels, only functions: what is asked of kernels cannot be seen then."""
    try:
        compiler()
    except NoCompiler as missing:
        pytest.skip(str(missing))
