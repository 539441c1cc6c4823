"""Many models as a whole: their results, what is noted down of them, and what is done again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from many_models import content, planted, write_model, write_with_weights

import fusionc
from fusionc import op
from fusionc.batch import batch_story
from fusionc.batch.batch_story import convert_many
from fusionc.batch.find_models import find_models
from fusionc.batch.outcome import Outcome
from fusionc.batch.summary import Summary
from fusionc.custom import replacement
from fusionc.errors import FusioncError, UsageError

OUTPUT = Path("out")


def converted(*models: Path, **given: Any) -> Summary:
    options = {
        name: given.pop(name) for name in ("jobs", "resume", "notes", "tell") if name in given
    }
    return convert_many(
        find_models(models, OUTPUT), OUTPUT, {"export_compile_stat": 1, **given}, **options
    )


def states(summary: Summary) -> dict[str, str]:
    return {outcome.name: outcome.state for outcome in summary.outcomes}


def noted(name: str, pattern: str) -> str:
    (file,) = Path(f"out/fusionc_records/{name}").glob(pattern)
    return file.read_text()


def test_one_bad_model_is_a_line_and_not_the_end(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FUSIONC_WORK_PATH", "ASCEND_SLOG_PRINT_TO_STDOUT"):  # which are for one log
        monkeypatch.setenv(name, "1")
    write_bad_models(models)
    custom = planted(models.parent, "os.kill(os.getpid(), signal.SIGSEGV)")
    told = list[Outcome]()
    summary = converted(
        models, custom_passes=(custom,), verify=False, jobs=1, notes=["a note"], tell=told.append
    )
    assert states(summary) == {
        "crashes.onnx": "crashed", "damaged.onnx": "failed", "gone.onnx": "failed",
        "relu.onnx": "converted", "sub/all.onnx": "converted", "sub/lost.onnx": "failed", "sub/none.onnx": "converted",
        "sub/split.onnx": "converted",
    }  # fmt: skip
    assert sorted(outcome.name for outcome in told) == list(states(summary)), "each as it comes"
    assert_each_has_its_error(summary)
    results = ["relu.onnx", "sub/all.onnx", "sub/none.onnx", "sub/split.onnx", "sub/weights.bin"]
    assert list(content(OUTPUT)) == results
    assert not Path("1").exists()
    fusionc.convert(
        models / "sub/split.onnx", output="alone.onnx", custom_passes=[custom], verify=False
    )
    assert Path("alone.onnx").read_bytes() == content(OUTPUT)["sub/split.onnx"]
    assert_all_is_noted(summary)
    fault = summary.fault(OUTPUT)
    assert fault is not None
    assert (fault.exit_code, fault.what) == (1, "4 of 8 models were not converted")


def write_bad_models(models: Path) -> None:
    """One that crashes the passes, one that is damaged, one that is gone, and one whose weights are
    gone, and good ones.
    """
    write_model(models / "crashes.onnx", "Softsign")
    (models / "damaged.onnx").write_bytes(b"\xff" * 100)
    (models / "gone.onnx").symlink_to("nowhere")
    for name in ("all", "none"):
        write_with_weights(models / f"sub/{name}.onnx")
    (models / "sub/lost.onnx").write_bytes(
        (models / "sub/none.onnx").read_bytes().replace(b"weights", b"nothing")
    )


def assert_each_has_its_error(summary: Summary) -> None:
    errors = {outcome.name: outcome.error or "" for outcome in summary.outcomes}
    assert "has ended: by signal 11, Segmentation fault" in errors["crashes.onnx"]
    assert errors["damaged.onnx"].startswith("E13005: the file is not an ONNX model")
    assert errors["gone.onnx"].startswith("E10410: the model does not exist")
    assert errors["sub/lost.onnx"].startswith("E10410: the file of external data does not exist")


def assert_all_is_noted(summary: Summary) -> None:
    assert "effected_times=" in noted("sub/split.onnx.record", "debug/plog/*.log")
    assert "graph_fusion" in noted("sub/split.onnx.record", "fusion_result.json")
    noted_down = json.loads(noted("", "summary.json"))
    assert noted_down["notices"][-1] == "a note"
    assert noted_down["counts"] == {"converted": 4, "failed": 3, "crashed": 1}
    assert [model["name"] for model in noted_down["models"]] == list(states(summary))


def test_wrong_options_are_said_once(models: Path) -> None:
    with pytest.raises(UsageError, match='"Nonsense" is not a pass'):
        converted(models, optimization_switch="Nonsense:off")
    assert not OUTPUT.exists()


def test_a_place_that_cannot_be_written(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("start_processes", "check"):
        monkeypatch.setattr(batch_story, name, lambda *_, **__: [])
    Path("file").write_text("")
    with pytest.raises(FusioncError, match="the result cannot be written: Not a directory"):
        convert_many(find_models([models], Path("file/out")), Path("file/out"), {})


@pytest.mark.parametrize("is_variable", [False, True])
def test_a_file_of_flags_is_found_from_where_the_command_is(
    models: Path, is_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models.parent)
    flags = Path("flags.json")
    flags.write_text('{"opt_level": "2", "disable_cluster_ops": "Exp"}')
    if is_variable:
        monkeypatch.setenv("MS_DEV_GRAPH_KERNEL_FLAGS", "--path=flags.json")
    given: dict[str, Any] = {} if is_variable else {"graph_kernel_flags": "--path=flags.json"}
    given["jobs"] = 1
    first = converted(models, resume=True, **given)
    assert not any("cannot be read" in notice for o in first.outcomes for notice in o.notices)
    logs = [Path(o.log).read_text() for o in first.outcomes if o.log is not None]
    assert logs and not any("cannot be read" in log for log in logs)
    flags.write_text('{"opt_level": "0"}')
    assert set(states(converted(models, resume=True, **given)).values()) == {"converted"}


def test_a_file_of_flags_in_a_folder_with_a_blank_is_an_error(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = models.parent / "two words"
    folder.mkdir()
    (folder / "flags.json").write_text("{}")
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match="the path of a file of flags cannot contain"):
        converted(models, graph_kernel_flags="--path=flags.json")


def test_a_module_that_a_file_of_passes_imports_is_one_of_the_ingredients(models: Path) -> None:
    custom = models.parent / "passes.py"
    module = models.parent / "made_by.py"
    text = "import fusionc\nfrom fusionc import op\nfound, made = lambda x: op.Abs(op.Abs(x)), lambda x: op.Abs(x)\n"
    module.write_text(text)
    custom.write_text(
        "import made_by\nmade_by.fusionc.register_replacement(made_by.found, made_by.made, "
        "name='Own')\n"
    )
    given: dict[str, Any] = {"custom_passes": (custom,), "resume": True, "jobs": 1}
    for expected in ("converted", "kept"):
        assert set(states(converted(models, **given)).values()) == {expected}
    module.write_text(f"{text}# changed\n")
    assert set(states(converted(models, **given)).values()) == {"converted"}


def test_what_the_program_has_registered_took_no_part(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "REGISTERED", [])
    fusionc.register_replacement(
        lambda x: op.Exp(op.Neg(x)), lambda x: op.Reciprocal(op.Exp(x)), name="Mine"
    )
    summary = converted(models / "relu.onnx", verify=False, jobs=1)
    assert any(
        notice.startswith("registered passes did not run (Mine)") for notice in summary.notices
    )


@pytest.mark.parametrize(
    "count, given, expected",
    [(3, {}, True), (2, {}, False), (3, {"report": Path("pages")}, False)],
    ids=str,
)
def test_processes_are_pinned_where_models_wait_and_nothing_is_timed(
    models: Path, count: int, given: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[bool]()

    def start(_count: int, *, are_pinned: bool) -> None:
        asked.append(are_pinned)

    monkeypatch.setattr(batch_story, "start_processes", start)
    monkeypatch.setattr(batch_story, "check", lambda *_: [])
    monkeypatch.setattr(batch_story, "convert_here", lambda *_: (outcome for outcome in ()))
    for number in range(count):
        write_model(models.parent / f"some/{number}.onnx")
    converted(models.parent / "some", jobs=2, **given)
    assert asked == [expected]


def test_nothing_large_is_imported_before_the_processes_are_started() -> None:
    """They would wait for it; they import it themselves."""
    code = "import sys, fusionc.batch.batch_story; print({'onnx', 'numpy', 'onnxruntime'} & sys.modules.keys())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"


@pytest.mark.parametrize("name", ["report", "dump_graph"])
@pytest.mark.parametrize("place", ["/dev/null", "page.html"])
def test_pages_and_dumps_go_into_folders_alone(models: Path, name: str, place: str) -> None:
    Path("page.html").write_text("")
    with pytest.raises(UsageError, match=f"--{name} of many models must be a folder"):
        converted(models, **{name: Path(place)})
    assert not OUTPUT.exists()
