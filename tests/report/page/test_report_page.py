"""The page that `--report` writes: all of it there, nothing from elsewhere, whatever the nodes are
called.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import onnx
import pytest
from harness import parse

import fusionc
from fusionc.errors import UsageError, VerificationError
from fusionc.passes import PASSES
from fusionc.report import Report
from fusionc.report.page import page
from fusionc.report.page.graph_map import maps_of
from fusionc.report.page.measured_times import MeasuredTimes
from fusionc.report.page.rewrites import Alike
from fusionc.report.page.sketch import OPERATOR, VALUE, Item, Sketch
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit, PatternCount

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "sample_models"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WRONG_PASS = """
import fusionc
from fusionc import op
fusionc.register_replacement(lambda x: op.Relu(x), lambda x: op.Abs(x), name="WrongReluPass")
"""
MOST = 2_000_000  # bytes, for a model of 5,000 nodes


class Elements(HTMLParser):
    """The elements of a page, which have to be closed in order; `seen` has them with their
    attributes.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def converted(model: Path, *, is_measured: bool = False, **options: Any) -> tuple[Report, str]:
    home = "fusionc.report.page.report_page.measured_times"
    unmeasured = mock.patch(home, return_value=MeasuredTimes(failure="in a hurry"))
    with nullcontext() if is_measured else unmeasured:
        report = fusionc.convert(model, output="out.onnx", report="report.html", **options)
    assert report.page == Path("report.html")
    return report, Path("report.html").read_text(encoding="utf-8")


def test_the_page_of_a_conversion_has_all_of_it_and_needs_nothing_else() -> None:
    report, text = converted(SAMPLES / "transformer_block.onnx", is_measured=True)
    for total in report.passes():
        assert total.name in text
        assert all(reason in text for reason in total.refused)
    for words in ("Verified: equal in", "73 <i>→</i> 17", "between operators", "one run"):
        assert words in text
    articles = text.count("<article ")
    assert articles == text.count("<small>before</small>") == text.count("<small>after</small>")
    times = re.findall(r'<span class="tag">(\d+) ×</span>', text)
    assert sum(map(int, times)) == report.effected
    assert_it_needs_nothing_else(text)
    assert len(text.encode()) < MOST


def assert_it_needs_nothing_else(text: str) -> None:
    attributes = [pair for _, given in Elements(text).seen for pair in given.items()]
    assert not [name for name, _ in attributes if name in ("src", "srcset", "data", "action")]
    assert all((value or "").startswith("#") for name, value in attributes if name == "href")
    assert not re.search(r"https?:|url\(|@import", text)
    assert "default-src 'none'" in text


def test_the_model_is_the_same_with_a_page_and_without(tmp_path: Path) -> None:
    converted(SAMPLES / "transformer_block.onnx", verify=False)
    fusionc.convert(SAMPLES / "transformer_block.onnx", output="plain.onnx", verify=False)
    assert Path("out.onnx").read_bytes() == Path("plain.onnx").read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</svg></style><b>",
        "a\x1b[0m\n$title\u202e",
    ],
)
def test_names_are_text_whatever_they_hold(name: str) -> None:
    model = onnx.load(SAMPLES / "conv_bn.onnx")
    renamed = {
        value: f"{name}{value}"
        for node in model.graph.node
        for value in (*node.input, *node.output)
    }
    renamed |= {value.name: value.name for value in (*model.graph.input, *model.graph.output)}
    for node in model.graph.node:
        node.name = f"{name}{node.name}"
        node.input[:], node.output[:] = (
            [renamed[value] for value in values] for values in (node.input, node.output)
        )
    for weight in model.graph.initializer:
        weight.name = renamed[weight.name]
    onnx.save(model, "hostile.onnx")
    _, text = converted(Path("hostile.onnx"), verify=False)
    seen = Elements(text).seen
    assert [tag for tag, _ in seen].count("script") == 1
    assert not {"img", "b", "iframe"} & {tag for tag, given in seen if tag != "b" or given}
    assert not [key for _, given in seen for key in given if key.startswith("on")]
    assert name not in text and "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("package", ["grandalf", "jinja2"])
def test_what_has_to_be_installed_is_said_before_anything_is_done(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "fusionc.report.page.drawing.find_spec",
        lambda name: None if name == package else find(name),
    )
    with pytest.raises(UsageError, match=f"needs the package {package}") as raised:
        fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx", report="report.html")
    assert "pip install 'fusionc[report]'" in str(raised.value) and not Path("out.onnx").exists()


@pytest.mark.parametrize("report", ["nowhere/report.html", "out.onnx", "in.onnx", "."])
def test_where_a_page_cannot_lie(report: str) -> None:
    shutil.copy(SAMPLES / "conv_bn.onnx", "in.onnx")
    with pytest.raises(UsageError):
        fusionc.convert("in.onnx", output="out.onnx", report=report)
    assert not Path("out.onnx").exists()


def test_a_page_replaces_a_page_and_nothing_else() -> None:
    for content in ("", None):
        if content is not None:
            Path("report.html").write_text(content)
        converted(SAMPLES / "conv_bn.onnx", verify=False)
    Path("report.html").write_text("<!DOCTYPE html> of somebody else")
    with pytest.raises(UsageError, match="is not a page of fusionc"):
        converted(SAMPLES / "conv_bn.onnx", verify=False)
    assert Path("report.html").read_text().endswith("somebody else")


def test_a_model_that_does_not_run_has_a_page_without_times() -> None:
    model = onnx.load(SAMPLES / "conv_bn.onnx")
    model.graph.node.add(
        op_type="Unknown", domain="nobody", input=["image"], output=["unknown"], name="unknown"
    )
    model.graph.output.add(name="unknown").type.tensor_type.elem_type = 1
    model.opset_import.add(domain="nobody", version=1)
    onnx.save(model, "custom.onnx")
    report, text = converted(Path("custom.onnx"), is_measured=True)
    assert report.verification is not None and report.verification.startswith("not verified")
    assert "Not measured: " in text and "FusedConv" in text


def test_a_result_that_is_wrong_has_a_page_that_says_so() -> None:
    Path("my_passes.py").write_text(WRONG_PASS)
    with pytest.raises(VerificationError):
        converted(SAMPLES / "conv_bn.onnx", custom_passes=["my_passes.py"])
    text = Path("report.html").read_text(encoding="utf-8")
    Elements(text)
    assert not Path("out.onnx").exists() and "nothing was written" in text
    (said,) = re.findall(r'<pre class="verdict bad">(.*?)</pre>', text)
    assert "the result does not compute what the model computes" in said and "WrongReluPass" in said
    assert "<details open><summary>how far each output was off" in text
    assert "Not measured: nothing was written." in text and "<h3>WrongReluPass" in text


def test_kernels_are_drawn_and_measured_as_areas() -> None:
    model = onnx.load(SAMPLES / "conv_bn.onnx")
    del model.graph.node[1:], model.graph.initializer[:]
    for at, (op, read, made) in enumerate(
        (("Exp", "image", "a"), ("Neg", "a", "b"), ("Abs", "b", "y"))
    ):
        node = model.graph.node[0] if not at else model.graph.node.add()
        node.CopyFrom(onnx.helper.make_node(op, [read], [made], name=op))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("y", 1, ["n", 3, "h", "w"]))
    onnx.save(model, "chain.onnx")
    _, text = converted(Path("chain.onnx"), verify=False, enable_graph_kernel=True, target="onnx")
    assert "fusionc.gk." in text and "TbeEltwiseFusionPass" in text


def big_group(number: int) -> Alike:
    """A rewrite of 24 operators with long names, in 40 places, unlike that of every other
    number.
    """
    operators = [
        Item(OPERATOR, f"Operator{(number >> bit) & 1}", ("axis=1", "const 3×224×224"))
        for bit in range(24)
    ]
    items = (*operators, Item(VALUE, "x" * 80), Item(VALUE, "y"))
    links = (*((at, at + 1) for at in range(23)), (24, 0), (23, 25))
    sketch = Sketch(items, links)
    names = tuple(f"/model/layers.{number}/self_attn/node_{at}" for at in range(24))
    commits = [Commit(at, 0, "Pass", "pattern", names) for at in range(1, 41)]
    return Alike(Pass(), "pattern", sketch, sketch, commits, [[] for _ in commits])


def test_a_page_stays_small_however_much_was_rewritten() -> None:
    counts = [PatternCount(0, "GraphFusion", "Pass", "pattern", effected=40 * 300)]
    report = Report(Path("in.onnx"), Path("out.onnx"), patterns=counts, verification="equal")
    text = page.page_text(
        report, [], [big_group(number) for number in range(300)], MeasuredTimes(failure="no")
    )
    assert 1_000_000 < len(text.encode()) < MOST
    assert text.count("<article ") == 300 > text.count("<small>before</small>") > 50


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
def test_a_browser_shows_it_and_searches_it(tmp_path: Path) -> None:
    report, _ = converted(SAMPLES / "transformer_block.onnx", verify=False)
    assert report.page is not None
    dom, said = in_browser(
        tmp_path, f"{report.page.resolve().as_uri()}#search=layernorm%20sqrt", "--dump-dom"
    )
    assert "CONSOLE" not in said
    shown = re.findall(r"<article ([^>]*)>.*?<h3>(\w+)", dom, re.DOTALL)
    assert [name for attributes, name in shown if "hidden" not in attributes] == [
        "LayerNormFusionPass"
    ]
    assert len(shown) > 5 and '<input id="search" type="search"' in dom
    in_browser(
        tmp_path,
        report.page.resolve().as_uri(),
        "--screenshot=shown.png",
        "--window-size=1200,2000",
    )
    assert (
        len(set(Path("shown.png").read_bytes())) == 256
        and Path("shown.png").stat().st_size > 50_000
    )


def in_browser(folder: Path, address: str, *options: str) -> tuple[str, str]:
    """What chromium prints of a page, and of its console."""
    assert CHROMIUM is not None
    quiet = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={folder}/chromium",
    ]
    done = subprocess.run(
        [CHROMIUM, *quiet, *options, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


def test_a_page_that_goes_into_a_pipe(in_a_folder_of_its_own: None) -> None:
    os.mkfifo("report.html")
    read = list[str]()
    reader = threading.Thread(
        target=lambda: read.append(Path("report.html").read_text("utf-8")), daemon=True
    )
    reader.start()
    report = fusionc.convert(
        SAMPLES / "matmul_bias.onnx", output="out.onnx", verify=False, report="report.html"
    )
    reader.join(10)
    assert report.page == Path("report.html") and Elements(read[0]).seen
    assert stat.S_ISFIFO(os.lstat("report.html").st_mode)


def test_a_page_is_no_socket(in_a_folder_of_its_own: None) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("report.html")
        with pytest.raises(UsageError, match="is not a page of fusionc"):
            fusionc.convert(SAMPLES / "matmul_bias.onnx", output="out.onnx", report="report.html")


def test_drawings_come_before_the_table_of_passes_and_routine_ones_last() -> None:
    _, text = converted(SAMPLES / "transformer_block.onnx", is_measured=True)
    assert text.index('id="map"') < text.index('id="rewrites"') < text.index('id="passes"')
    names = re.findall(r"<article .*?<h3>(\w+)", text)
    routine = [type(p).__module__.startswith("fusionc.passes.cleanup.") for p in PASSES]
    is_routine = dict(zip((p.name for p in PASSES), routine, strict=True))
    assert [is_routine[name] for name in names] == sorted(is_routine[name] for name in names)
    assert is_routine[names[-1]] and not is_routine[names[0]]
    runs = re.search(r"faster half of all runs: (\d+) runs before and (\d+) after", text)
    assert runs is not None and all(int(count) >= 5 for count in runs.groups())
    for name, found in re.findall(r'<a href="#(g\d+)"><b>(\w+)</b>', text):
        assert f'<article id="{name}"' in text
        assert f"<h3>{found} " in text[text.index(f'<article id="{name}"') :][:200]


def test_the_map_shows_what_was_changed() -> None:
    n = "agraph (float[4] x) => (float[4] y) { a = Exp (x) b = Sin (x) c = Add (a, b) y = Neg (c) }"
    m = "agraph (float[4] x) => (float[4] y) { a = Exp (x) b = Cos (x) c = Add (a, b) y = Abs (c) }"
    for name, text in (("n.onnx", n), ("m.onnx", m)):
        onnx.save(parse(text), name)
    before, after = maps_of(Path("n.onnx"), Path("m.onnx"))
    assert [[cell.title for cell in column] for column in before.columns] == [
        ["Exp", "Sin"],
        ["Add"],
        ["Neg"],
    ]
    changed = [cell.title for column in after.columns for cell in column if cell.is_changed]
    assert changed == ["Cos", "Abs"] and (after.cells, after.changed, after.more) == (4, 2, 0)


def test_every_number_of_a_row_has_its_label_where_headers_are_hidden() -> None:
    _, text = converted(SAMPLES / "transformer_block.onnx", is_measured=True)
    tables = re.findall(r'<table class="stack">(.*?)</table>', text, re.DOTALL)
    assert len(tables) == 3
    for cells in (re.findall(r'<td class="n"([^>]*)>([^<]*)<', table) for table in tables):
        assert len(cells) > 8 and all("data-label" in label for label, number in cells if number)
