"""A library is machine code: what this user's fusionc has not compiled is not executed, and not
passed on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from harness import parse
from models_with_areas import GATE

import fusionc
from fusionc.graph_kernel.c.compile import compiler
from fusionc.graph_kernel.library import cache

EVIL = """
#include <stdio.h>
static void __attribute__((constructor)) start(void) { fclose(fopen("EXECUTED_AT", "w")); }
__attribute__((visibility("default"))) void *RegisterCustomOps(void *options, void *api) { return 0; }
"""
ALL_OFF = Path(__file__).parents[3] / "switch_configs" / "all_off.json"
pytestmark = pytest.mark.usefixtures("needs_a_compiler")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(GATE), "in.onnx")


@pytest.fixture
def executed(tmp_path: Path) -> Path:
    """The file that the library beside x.onnx makes when it is loaded."""
    fusionc.convert("in.onnx", output="x.onnx", enable_graph_kernel=True, verify=False)
    executed = tmp_path / "executed"
    Path("evil.c").write_text(EVIL.replace("EXECUTED_AT", str(executed)))
    subprocess.run([*compiler(), "-shared", "-fPIC", "-o", "x.kernels.so", "evil.c"], check=True)
    return executed


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"fusion_switch_file": ALL_OFF}, {"enable_graph_kernel": True}],
    ids=["default", "off", "on"],
)
def test_a_library_of_others_is_neither_loaded_nor_copied(
    executed: Path, options: dict[str, object], verify: bool
) -> None:
    report = fusionc.convert("x.onnx", output="y.onnx", verify=verify, **options)
    assert not executed.exists() and report.kernels is None and not Path("y.kernels.so").exists()
    assert any(
        "x.kernels.so was not compiled by" in told and "--trust_kernels" in told
        for told in report.notices
    )
    assert [function.domain for function in onnx.load("y.onnx").functions] == ["fusionc.gk"]
    if verify:
        assert report.verification is not None and report.verification.startswith("equal")


def test_what_the_user_trusts_is_loaded_and_copied(executed: Path) -> None:
    report = fusionc.convert("x.onnx", output="y.onnx", verify=False, trust_kernels=True)
    assert executed.exists()  # unverified, too, a result is loaded once
    assert report.kernels == Path("y.kernels.so")
    assert Path("y.kernels.so").read_bytes() == Path("x.kernels.so").read_bytes()
    executed.unlink()
    fusionc.convert("x.onnx", output="y.onnx", trust_kernels=True)
    assert executed.exists()
    executed.unlink()
    fusionc.convert("y.onnx", output="z.onnx")  # that was for one conversion
    assert not executed.exists()


def test_what_is_loaded_is_not_the_file_beside_the_model(
    executed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be exchanged after it was looked at."""
    evil = Path("x.kernels.so").read_bytes()
    fusionc.convert("in.onnx", output="w.onnx", enable_graph_kernel=True, verify=False)

    def exchange(what: str) -> None:
        if what == "saving":
            Path("w.kernels.so").write_bytes(evil)

    good = Path("w.kernels.so").read_bytes()
    report = fusionc.convert("w.onnx", output="v.onnx", progress=exchange)
    assert report.verification is not None and report.verification.startswith(
        "with generated kernels"
    )
    assert Path("w.kernels.so").read_bytes() == evil
    assert not executed.exists() and Path("v.kernels.so").read_bytes() == good


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fusionc" / "kernels"


def test_the_cache_is_the_users_alone(own_cache: Path) -> None:
    own_cache.mkdir(parents=True)
    own_cache.chmod(0o777)
    assert cache.cache_folder() == own_cache
    assert own_cache.stat().st_mode & 0o777 == own_cache.parent.stat().st_mode & 0o777 == 0o700


def test_a_cache_of_another_user_is_not_used(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fusionc.convert("in.onnx", output="x.onnx", enable_graph_kernel=True, verify=False)
    (library,) = own_cache.glob("*.so")
    assert cache.known(Path("x.kernels.so")) == library
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert cache.cache_folder() != own_cache and not cache.is_usable(library)
    assert cache.known(Path("x.kernels.so")) is None
    report = fusionc.convert("in.onnx", output="y.onnx", enable_graph_kernel=True, verify=False)
    assert report.kernels is not None and any(
        "belongs to another user" in told for told in report.notices
    )


@pytest.mark.parametrize("how", ["writable", "link"])
def test_a_file_that_others_may_have_written_is_made_anew(own_cache: Path, how: str) -> None:
    fusionc.convert("in.onnx", output="x.onnx", enable_graph_kernel=True, verify=False)
    (library,) = own_cache.glob("*.so")
    good = library.read_bytes()
    if how == "link":
        shutil.copyfile(library, "elsewhere")
        library.unlink()
        library.symlink_to(Path("elsewhere").absolute())
    else:
        library.write_bytes(b"junk")
        library.chmod(0o770)
    assert cache.known(Path("x.kernels.so")) is None
    fusionc.convert("in.onnx", output="y.onnx", enable_graph_kernel=True)
    assert library.read_bytes() == Path("y.kernels.so").read_bytes() == good and cache.is_usable(
        library
    )


def test_whatever_the_mask_of_the_user_what_was_compiled_is_known(own_cache: Path) -> None:
    mask = os.umask(0)
    try:
        fusionc.convert("in.onnx", output="x.onnx", enable_graph_kernel=True, verify=False)
    finally:
        os.umask(mask)
    assert cache.known(Path("x.kernels.so")) is not None
