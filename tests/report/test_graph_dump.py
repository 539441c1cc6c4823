"""A dump takes the place of a former one in its folder, and touches nothing else there."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import fusionc
from fusionc.report.graph_dump import GraphDump

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 18]> g (float[1] x) => (float[1] y) { y = Abs(x) }'
)
OTHERS = [
    "0000_input.txt.old", "0001_mine.onnx", "0001_mine.onnx.data", "0002_mine.txt", "0002_two words.onnx",
    "0002_two words.txt", "2024_report.onnx", "2024_report.txt", "3_small.onnx", "3_small.txt", "result.onnx",
]  # fmt: skip


def dump(names: list[str], folder: Path = Path("dump"), used: tuple[Path, ...] = ()) -> None:
    made = GraphDump(folder, used)
    for name in names:
        made.write(MODEL, name)


def files(folder: Path = Path("dump")) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_shorter_dump_leaves_nothing_of_a_longer_one() -> None:
    dump(["input", "APass", "BPass", "CPass", "output"])
    dump(["input", "BPass", "output"])
    stems = ["0000_input", "0001_BPass", "0002_output"]
    assert files() == sorted(f"{stem}{end}" for stem in stems for end in (".onnx", ".txt"))


def test_what_is_no_dump_stays() -> None:
    dump(["input", "APass", "output"])
    for name in OTHERS:
        Path("dump", name).write_text(name)
    Path("dump/0001_folder.onnx").mkdir()
    Path("dump/0001_folder.txt").touch()
    dump(["input"])
    kept = [*OTHERS, "0001_folder.onnx", "0001_folder.txt"]
    assert files() == sorted([*kept, "0000_input.onnx", "0000_input.txt"])
    assert all(Path("dump", name).read_text() == name for name in OTHERS)


def test_pairs_of_files_that_no_input_begins_are_no_dump() -> None:
    Path("dump").mkdir()
    for name in ("0000_cat.onnx", "0000_cat.txt", "0001_dog.onnx", "0001_dog.txt"):
        Path("dump", name).touch()
    dump([])
    dump(["input"])
    assert len(files()) == 6


def test_a_former_dump_stays_until_there_is_something_to_write() -> None:
    dump(["input", "output"])
    dump([])
    assert len(files()) == 4


@pytest.mark.parametrize(
    "used", ["dump/0003_APass.onnx", "dump/../dump/0000_input.txt", "link.onnx"]
)
def test_the_model_and_the_result_are_no_part_of_it(used: str) -> None:
    Path("dump").mkdir()
    Path("dump/0003_APass.onnx").write_text("a model")
    Path("link.onnx").symlink_to("dump/0003_APass.onnx")
    with pytest.raises(fusionc.UsageError, match="dump of the graph"):
        dump(["input"], used=(Path("in.onnx"), Path(used)))
    assert files() == ["0003_APass.onnx"]
    dump(["input"], used=(Path("dump/in.onnx"), Path("0003_APass.onnx")))


def test_a_conversion_that_would_dump_over_its_model() -> None:
    onnx.save(MODEL, "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", dump_graph="dump")
    with pytest.raises(fusionc.UsageError, match="dump of the graph"):
        fusionc.convert(
            "dump/0000_input.onnx", output="out.onnx", dump_graph="dump", target_opset=20
        )
    with pytest.raises(fusionc.UsageError, match="dump of the graph"):
        fusionc.convert("in.onnx", output="dump/0001_output.onnx", dump_graph="dump")
    assert onnx.load("dump/0000_input.onnx") == MODEL
