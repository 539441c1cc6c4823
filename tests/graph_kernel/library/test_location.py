"""Whose library is it? Only what fusionc made for this model is replaced or removed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from harness import parse
from models_with_areas import GATE

import fusionc
from fusionc.graph_kernel.library.location import is_own, library_of
from fusionc.graph_kernel.select import make_area


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(GATE), "in.onnx")


@pytest.mark.parametrize(
    ("model", "library"),
    [
        ("out.onnx", "out.kernels.so"),
        ("sub/out.v2.onnx", "sub/out.v2.kernels.so"),
        ("out.ONNX", "out.ONNX.kernels.so"),
        ("out.pb", "out.pb.kernels.so"),
        ("a.kernels.so.onnx", "a.kernels.so.kernels.so"),
    ],
)
def test_no_two_models_have_one_library(model: str, library: str) -> None:
    assert library_of(model) == Path(library)


@pytest.mark.parametrize("flags", [{}, {"graph_kernel_flags": "--enable_cluster_ops_only=Exp"}])
def test_a_library_that_fusionc_did_not_make_stays(flags: dict[str, str]) -> None:
    Path("out.kernels.so").write_bytes(b"somebody's")
    fusionc.convert("in.onnx", output="out.onnx", verify=False, **flags)
    assert Path("out.onnx").exists() and Path("out.kernels.so").read_bytes() == b"somebody's"


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_library_that_fusionc_did_not_make_is_not_replaced(kind: str) -> None:
    fusionc.convert("in.onnx", output="mine.onnx", enable_graph_kernel=True, verify=False)
    place = Path("out.kernels.so")
    place.write_bytes(b"somebody's") if kind == "file" else place.symlink_to("mine.kernels.so")
    before = place.read_bytes()
    changed = (
        "agraph (float[N,8] x) => (float[N,8] y) { s = Sigmoid (x)  t = Exp (x)  y = Mul (s, t) }"
    )
    onnx.save(parse(changed), "in.onnx")
    with pytest.raises(fusionc.FusioncError, match="that fusionc did not write") as caught:
        fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert caught.value.exit_code == 1 and caught.value.where == "out.kernels.so"
    assert (
        not Path("out.onnx").exists()
        and place.read_bytes() == before
        and is_own(Path("mine.kernels.so"))
    )


@pytest.mark.usefixtures("needs_a_compiler")
def test_the_library_of_the_model_stays() -> None:
    """z.onnx and z.ONNX are two models, where the file system says so."""
    fusionc.convert("in.onnx", output="z.onnx", enable_graph_kernel=True, verify=False)
    before = Path("z.kernels.so").read_bytes()
    fusionc.convert("z.onnx", output="z.ONNX", target="onnx", verify=False)
    fusionc.convert("in.onnx", output="z.ONNX", verify=False)
    assert Path("z.kernels.so").read_bytes() == before


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_link_to_the_library_of_the_model_stays() -> None:
    """Two names of one folder: what lies at the one place is the model's own library."""
    Path("sub").mkdir()
    Path("again").symlink_to("sub")
    fusionc.convert("in.onnx", output="sub/z.ONNX.onnx", enable_graph_kernel=True, verify=False)
    fusionc.convert("sub/z.ONNX.onnx", output="again/z.ONNX", target="onnx", verify=False)
    assert is_own(Path("sub/z.ONNX.kernels.so"))


@pytest.mark.usefixtures("needs_a_compiler")
def test_the_library_that_has_the_kernels_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a conversion was killed before its last step, the new library has not come to its
    place.
    """
    import onnxruntime

    from fusionc.disk.publish import digest

    fusionc.convert("in.onnx", output="new.onnx", enable_graph_kernel=True, verify=False)
    onnx.save(parse(GATE.replace("Tanh", "Exp")), "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True, verify=False)
    waiting = Path(f"out.{digest(Path('new.kernels.so'))}.kernels.so")
    Path("new.onnx").rename("out.onnx")
    Path("new.kernels.so").rename(waiting)
    loaded = []
    monkeypatch.setattr(
        onnxruntime.SessionOptions,
        "register_custom_ops_library",
        lambda _, path: loaded.append(path),
    )
    fusionc.register_kernels(onnxruntime.SessionOptions(), "out.onnx")
    assert [Path(path).name for path in loaded] == [waiting.name]
    fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True, verify=False)
    assert not waiting.exists() and Path("out.kernels.so").exists()


def test_files_that_the_conversion_reads_are_not_written() -> None:
    for name, option, what in (
        ("cfg.onnx", "fusion_switch_file", "the switch file"),
        ("passes.onnx", "custom_passes", "a file of custom passes"),
    ):
        Path(name).write_text("{}")
        value = name if option == "fusion_switch_file" else [name]
        with pytest.raises(fusionc.UsageError, match=f"--output names {what}"):
            fusionc.convert("in.onnx", output=name, **{option: value})
        assert Path(name).read_text() == "{}"


@pytest.mark.usefixtures("needs_a_compiler")
def test_another_version_of_what_makes_kernels_names_areas_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a library of an older version never computes for a model of a newer one."""
    names = []
    for version in (b"1", b"2", b"1"):
        monkeypatch.setattr(make_area, "generator", lambda version=version: version)
        fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True, verify=False)
        names.append(onnx.load("out.onnx").functions[0].name)
    assert names[0] == names[2] != names[1]
