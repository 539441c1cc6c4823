"""The old set or the new one is there at every instant: publishing is stopped at every call of the
system.
"""

from __future__ import annotations

import builtins
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from fusionc.disk.places import locked, require_place, workshop
from fusionc.disk.publish import Companion, digest, ready_of
from fusionc.disk.save import save
from fusionc.errors import FusioncError
from fusionc.graph_kernel.library.location import library_for, published

CALLS = ("replace", "rename", "link", "unlink", "remove", "rmdir", "mkdir", "open", "fsync")
MARK = b"kernels of areas, made by fusionc\0"


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def model(scale: int, area: str | None) -> onnx.ModelProto:
    """x + scale, as an area of this name, or none; the weights are worth a file."""
    add = helper.make_node("Add", ["x", "w"], ["y"], domain="fusionc.gk" if area else "")
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("fusionc.gk", 1)]
    functions = []
    if area:
        add.op_type = area
        body = [helper.make_node("Add", ["x", "w"], ["y"])]
        functions = [helper.make_function("fusionc.gk", area, ["x", "w"], ["y"], body, imports[:1])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1024]) for name in "xy")
    weights = [numpy_helper.from_array(np.full(1024, scale, np.float32), "w")]
    graph = helper.make_graph([add], "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def library(folder: Path, area: str) -> Path:
    file = folder / area
    file.write_bytes(b"\x7fELF" + MARK + area.encode() + b"\0")
    return file


@contextmanager
def ready(
    folder: Path, scale: int, area: str | None, is_described: bool = False
) -> Iterator[Callable[[], None]]:
    """A set that can be published in `folder`, with a ready form and its description, or
    without.
    """
    output = folder / "out" / "out.onnx"
    source = folder / "in.onnx"
    file = library(folder, area) if area else None
    with save(model(scale, area), folder, output, external_weight=1) as saved:
        companion = Companion(None, output.with_name("out.session.json"))
        if is_described:
            form = saved.workshop / "form"
            described = saved.workshop / "described"
            form.write_text(f"form {scale}")
            place = ready_of(output, digest(form))
            described.write_text(f"model {scale}: {place.name}")
            companion = Companion(described, output.with_name("out.session.json"))
            saved = replace(saved, data=(*saved.data, (form, place)))
        yield lambda: saved.publish(published(file, output, source), companion)


def what_is_there(folder: Path) -> int:
    """Which model there is, 0 for none: it must be complete."""
    output = folder / "out" / "out.onnx"
    if not output.exists():
        return 0
    onnx.checker.check_model(output)
    proto = onnx.load(output)
    (y,) = onnxruntime.InferenceSession(output).run(None, {"x": np.zeros(1024, np.float32)})
    assert len(set(y)) == 1
    for function in proto.functions:
        assert function.name.encode() in library_for(output).read_bytes()
    described = output.with_name("out.session.json")
    if described.exists():  # it may be of another model, which it says, but what it names is there
        assert (output.parent / described.read_text().split()[-1]).is_file()
    return int(y[0])


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


class Fault:
    """Does something before or after the `at`-th call of the system."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        at: int,
        before: Callable[[], None],
        after: Callable[[], None],
    ) -> None:
        self.count = 0
        self.at = at
        self.before = before
        self.after = after
        for name in CALLS:
            patch.setattr(os, name, self._watched(getattr(os, name)))
        patch.setattr(builtins, "open", self._watched(open))

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            self.count += 1
            number = self.count
            if number == self.at:
                self.before()
            result = call(*args, **options)
            if number == self.at:
                self.after()
            return result

        return watched


def nothing() -> None:
    pass


def fail() -> None:
    raise OSError(errno.EIO, "Input/output error")


def interrupt() -> None:
    raise KeyboardInterrupt


NEW = "New_split_2"
AREAS = [
    ("Old_split_1", "New_split_2"),
    ("Same_split_3", "Same_split_3"),
    ("Old_split_1", None),
    (None, "New_split_2"),
]


@pytest.fixture(
    params=[
        (False, None, NEW, False),
        *((True, *pair, False) for pair in AREAS),
        (True, "Old_split_1", NEW, True),
    ],
    ids=str,
)
def sets(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Path, Callable[[int], tuple[str | None, bool]]]:
    """A folder with an old set, of number 1, or with none; and of sets by their numbers the areas,
    and whether they have a ready form.
    """
    has_old, *areas, is_described = request.param
    folder = tmp_path / "template"
    (folder / "out").mkdir(parents=True)
    if has_old:
        with ready(folder, 1, areas[0], is_described) as publish:
            publish()
    return folder, lambda number: (areas[number - 1], is_described)


@pytest.mark.parametrize(
    "before, after", [(fail, nothing), (interrupt, nothing), (nothing, interrupt)]
)
def test_what_fails_or_is_interrupted_leaves_the_old_set_or_the_new_one(
    sets: tuple[Path, Callable[[int], tuple[str | None, bool]]],
    before: Callable[[], None],
    after: Callable[[], None],
    tmp_path: Path,
) -> None:
    template, form = sets
    old = what_is_there(template)
    seen = set()
    for at in range(1, 1000):
        folder = tmp_path / "run"
        shutil.copytree(template, folder)
        former = content(folder / "out")
        stopped: BaseException | None = None
        with ready(folder, 2, *form(2)) as publish, pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, at, before, after)
            try:
                publish()
            except (FusioncError, OSError, KeyboardInterrupt) as error:
                stopped = error
        there = what_is_there(folder)
        assert there in (old, 2)
        if there == old:
            assert stopped is not None and content(folder / "out") == former
        else:  # only an interruption comes after the last step
            assert stopped is None or isinstance(stopped, KeyboardInterrupt)
        seen.add(there)
        shutil.rmtree(folder)
        if fault.count < at:
            break
    assert at > 10 and seen == {old, 2}


def test_what_is_killed_leaves_the_old_set_or_the_new_one(
    sets: tuple[Path, Callable[[int], tuple[str | None, bool]]], tmp_path: Path
) -> None:
    template, form = sets
    old = what_is_there(template)
    with ready(template, 2, *form(2)):
        pass
    clean = tmp_path / "clean"
    shutil.copytree(template, clean)
    with ready(clean, 2, *form(2)) as publish:
        publish()
    wanted = [path.name for path in sorted((clean / "out").iterdir())]
    seen = set()
    for at in range(1, 1000):
        folder = tmp_path / "run"
        shutil.copytree(template, folder)
        child = os.fork()
        if not child:
            with ready(folder, 2, *form(2)) as publish, pytest.MonkeyPatch.context() as patch:
                Fault(patch, at, lambda: os._exit(9), nothing)
                publish()
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        seen.add(what_is_there(folder))
        with ready(folder, 2, *form(2)) as publish:  # again, which clears up
            publish()
        assert [path.name for path in sorted((folder / "out").iterdir())] == wanted
        assert what_is_there(folder) == 2
        shutil.rmtree(folder)
        if not code:
            break
    assert at > 10 and seen == {old, 2}


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "Permission denied"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("name", ["iterdir", "mkdir"])
def test_what_goes_wrong_before_there_is_a_temporary_folder(
    name: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Path, *_: Any, **__: Any) -> None:
        raise error

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with monkeypatch.context() as patch, suppress(FusioncError, KeyboardInterrupt):
        patch.setattr(Path, name, failing)
        with workshop(tmp_path):
            pass
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "file"]


def test_a_signal_while_the_temporary_folder_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    rmtree = shutil.rmtree
    calls = []

    def interrupted(path: Path, **options: Any) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        rmtree(path, **options)

    with pytest.raises(KeyboardInterrupt), ready(tmp_path, 1, None) as publish:
        publish()
        monkeypatch.setattr(shutil, "rmtree", interrupted)
    assert len(calls) == 2 and what_is_there(tmp_path) == 1
    assert not any(path.name.startswith(".fusionc") for path in (tmp_path / "out").iterdir())


def test_a_place_that_cannot_be_taken_leaves_all_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with ready(tmp_path, 1, "Old_split_1") as publish:
        publish()
    former = content(tmp_path / "out")
    foreign = tmp_path / "out" / "out.kernels.so"
    with ready(tmp_path, 2, "New_split_2") as publish:
        foreign.write_bytes(b"somebody's")
        with pytest.raises(FusioncError, match="that fusionc did not write") as caught:
            publish()
    assert caught.value.where == str(foreign) and caught.value.exit_code == 1
    assert content(tmp_path / "out") == former | {str(foreign): b"somebody's"}


def test_a_ready_form_goes_with_its_model(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for is_described in (True, False):
        for number in (1, 2):
            with ready(tmp_path, number, None, is_described) as publish:
                publish()
            there = sorted(path.suffix for path in (tmp_path / "out").iterdir())
            assert there == [".data", *([".json", ".onnx", ".onnx"] if is_described else [".onnx"])]


def test_what_a_conversion_compares_with_keeps_no_older_files(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for number in (1, 2):
        with workshop(tmp_path / "out"), ready(tmp_path, number, None) as publish:
            publish()
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".data", ".onnx"]


def test_a_killed_conversion_leaves_no_form_of_the_model(tmp_path: Path) -> None:
    abandoned = tmp_path / ".fusionc-0123abcd"
    abandoned.mkdir()
    for name in (".fusionc-0123abcd.onnx", ".fusionc-0123abcd.onnx.light.onnx"):
        (tmp_path / name).touch()
    with workshop(tmp_path) as mine:
        assert list(tmp_path.iterdir()) == [mine]


def test_only_what_fusionc_wrote_for_this_model_goes(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with ready(tmp_path, 1, "Old_split_1") as publish:
        publish()
    (data,) = folder.glob("*.data")
    foreign = {
        "out.onnx.data": "another's",
        "out.onnx.0123456789abcdef.data": "a name that is not of this content",
        "other.onnx.0123456789abcdef.data": "another's",
        "out.kernels.data": "another's",
        "out.0123456789abcdef.kernels.so": "not a library",
        "other.kernels.so": "another's",
        ".fusionc-notes": "a file",
    }
    for name, text in foreign.items():
        (folder / name).write_text(text)
    (folder / ".fusionc-drafts.d").mkdir()
    with ready(tmp_path, 2, None) as publish:
        publish()
    names = {path.name for path in folder.iterdir()}
    assert {name for name in names if name in foreign} == set(foreign)
    assert not data.exists() and "out.kernels.so" not in names and ".fusionc-drafts.d" in names


@pytest.mark.parametrize("name", ["other.onnx", "other.pb", "sub"])
def test_data_that_another_model_uses_stays(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with ready(tmp_path, 1, None) as publish:
        publish()
    (data,) = folder.glob("*.data")
    if name == "sub":
        (folder / name).mkdir()
    else:
        shutil.copyfile(folder / "out.onnx", folder / name)
    with ready(tmp_path, 2, None) as publish:
        publish()
    assert data.exists() == (name != "sub")


def test_two_conversions_to_one_output(tmp_path: Path) -> None:
    """Neither removes what the other one is about to publish, or takes for granted."""
    (tmp_path / "out").mkdir()
    with ready(tmp_path, 3, None) as publish:
        publish()
    with ready(tmp_path, 1, "Old_split_1") as first, ready(tmp_path, 3, None) as third:
        first()
        assert what_is_there(tmp_path) == 1
        third()
    assert what_is_there(tmp_path) == 3
    with ready(tmp_path, 2, "New_split_2") as publish:  # the last one clears up
        publish()
    assert what_is_there(tmp_path) == 2 and len(list((tmp_path / "out").iterdir())) == 3


def test_data_that_went_meanwhile_is_there_again(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with ready(tmp_path, 1, None) as publish:
        publish()
    (data,) = (tmp_path / "out").glob("*.data")
    with ready(tmp_path, 1, None) as publish:
        data.unlink()
        publish()
    assert what_is_there(tmp_path) == 1 and data.exists()


def test_a_script_may_hold_the_lock_of_the_folder(tmp_path: Path) -> None:
    """`flock out fusionc convert --output out/out.onnx` runs conversions one by one."""
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out"), ready(tmp_path, 1, None) as publish:
        publish()
    assert what_is_there(tmp_path) == 1


def test_the_file_of_another_user_in_a_sticky_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.onnx"
    tmp_path.chmod(0o1777)
    require_place(output)
    output.touch()
    require_place(output)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    place = tmp_path / "out.kernels.so"
    place.write_bytes(MARK)
    with pytest.raises(FusioncError, match="a user may not replace files of other users"):
        published(library(tmp_path, "New_split_2"), output, tmp_path / "in.onnx")
    place.unlink()
    with pytest.raises(FusioncError, match="a user may not replace files of other users"):
        require_place(output)
    assert {path.name for path in tmp_path.iterdir()} == {"out.onnx", "New_split_2"}


def test_a_link_at_the_output_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").write_text("not a model")
    (tmp_path / "out" / "out.onnx").symlink_to(tmp_path / "elsewhere")
    with ready(tmp_path, 1, None) as publish:
        publish()
    assert what_is_there(tmp_path) == 1 and not (tmp_path / "out" / "out.onnx").is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "not a model"


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    (tmp_path / "out").mkdir()
    for number, area in ((1, "Old_split_1"), (2, "New_split_2")):
        with ready(tmp_path, number, area) as publish:
            publish()
        assert what_is_there(tmp_path) == number


def test_weights_that_are_called_as_the_library(tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    source = tmp_path / "in" / "in.onnx"
    output = tmp_path / "out" / "out.onnx"
    onnx.save(
        model(1, "A_1"),
        source,
        save_as_external_data=True,
        location="out.kernels.so",
        size_threshold=0,
    )
    proto = onnx.load(source, load_external_data=False)
    with (
        save(proto, source.parent, output) as saved,
        pytest.raises(FusioncError, match="over a file that fusionc did not write"),
    ):
        saved.publish(published(library(tmp_path, "A_1"), output, source))
    assert not list((tmp_path / "out").iterdir())


def test_folders_of_data_go_where_it_fails(tmp_path: Path) -> None:
    proto = model(1, None)
    (tmp_path / "in" / "a" / "b").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    onnx.save(
        proto,
        tmp_path / "in" / "in.onnx",
        save_as_external_data=True,
        location="a/b/w.bin",
        size_threshold=0,
    )
    output = tmp_path / "out" / "out.onnx"
    for is_in_the_way in (True, False):
        proto = onnx.load(tmp_path / "in" / "in.onnx", load_external_data=False)
        with save(proto, tmp_path / "in", output) as saved:
            if is_in_the_way:
                output.mkdir()
                with pytest.raises(FusioncError, match="cannot be written"):
                    saved.publish()
                output.rmdir()
            else:
                saved.publish()
        assert (tmp_path / "out" / "a").exists() != is_in_the_way
    assert what_is_there(tmp_path) == 1
