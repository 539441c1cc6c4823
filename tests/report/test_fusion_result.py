from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fusionc.report import write_fusion_result
from fusionc.rewrite.log import Commit, PatternCount
from fusionc.verify.output_errors import OutputErrors

COUNTS = [
    PatternCount(0, "GraphFusion", "Zebra", "one", effected=1),
    PatternCount(0, "UBFusion", "Early", "early", refused={"no kernel": 3}),
    PatternCount(0, "GraphFusion", "Zebra", "two", effected=1, refused={"shared": 1}),
    PatternCount(0, "GraphFusion", "Ant", "ant", refused={"shared": 10}),
    PatternCount(0, "GraphFusion", "Never", "never"),
    PatternCount(1, "GraphFusion", "Never", "never"),
    PatternCount(2, "GraphFusion", "Ant", "ant", effected=1),
]
EXPECTED = """\
{
    "session_and_graph_id_0_0": {
        "graph_fusion": {
            "Ant": {
                "effect_times": "0",
                "match_times": "10"
            },
            "Zebra": {
                "effect_times": "2",
                "match_times": "3"
            }
        },
        "ub_fusion": {
            "Early": {
                "effect_times": "0",
                "match_times": "3",
                "repository_hit_times": "0"
            }
        }
    },
    "session_and_graph_id_0_2": {
        "graph_fusion": {
            "Ant": {
                "effect_times": "1",
                "match_times": "1"
            }
        }
    }
}
"""


@pytest.mark.parametrize("export_compile_stat", [1, 2])
def test_the_form_is_canns(tmp_path: Path, export_compile_stat: int) -> None:
    notices: list[str] = []
    file = write_fusion_result(COUNTS, export_compile_stat, notices)
    assert file is not None and file.resolve() == tmp_path / "fusion_result.json"
    assert file.read_text() == EXPECTED
    assert os.listdir(tmp_path) == ["fusion_result.json"] and notices == []


def test_what_canns_file_lacks_is_under_one_key(tmp_path: Path) -> None:
    left_out = [Commit(1, 2, "Ant", "ant", ("n",)), Commit(2, 2, "Ant", "ant", ("m",))]
    outputs = [OutputErrors("y", "all", 7, 0.25, 0.5, 1.0, "[0]")]
    notices = ['ignored, because no pass has such a name: "Foo"']
    file = write_fusion_result(COUNTS, 1, notices, left_out, outputs)
    assert file is not None
    content = json.loads(file.read_text())
    assert content.pop("fusionc") == {
        "left_out_times": {"session_and_graph_id_0_2": {"Ant": "2"}},
        "notices": notices,
        "verification": {
            "y": {
                "all": {
                    "samples": "7",
                    "max_abs": "0.25",
                    "max_rel": "0.5",
                    "cosine": "1",
                    "worst_at": "[0]",
                }
            }
        },
    }
    assert content == json.loads(EXPECTED)
    assert write_fusion_result(COUNTS[4:6], 1, notices, left_out, outputs) is None


def test_an_older_file_is_replaced_or_removed(tmp_path: Path) -> None:
    file = tmp_path / "fusion_result.json"
    file.write_text("old")
    assert write_fusion_result(COUNTS, 0, []) is None
    assert file.read_text() == "old"
    write_fusion_result(COUNTS[6:], 1, [])
    assert list(json.loads(file.read_text())) == ["session_and_graph_id_0_2"]
    assert write_fusion_result(COUNTS[4:6], 1, []) is None
    assert not file.exists()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({"ASCEND_WORK_PATH": "a"}, "a"), ({"ASCEND_WORK_PATH": "a", "FUSIONC_WORK_PATH": "f"}, "f")],
)
def test_the_work_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    file = tmp_path / expected / "FE" / str(os.getpid()) / "fusion_result.json"
    assert write_fusion_result(COUNTS, 1, []) == file
    assert file.read_text() == EXPECTED


def test_a_folder_that_cannot_be_written_is_a_notice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FUSIONC_WORK_PATH", str(tmp_path / "file"))
    notices: list[str] = []
    assert write_fusion_result(COUNTS, 1, notices) is None
    (notice,) = notices
    assert "fusion_result.json is not written" in notice
