"""What people read: plain columns in a pipe, a table that fits the screen in a terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from fusionc.report import Report, table
from fusionc.report.report import KernelGain
from fusionc.report.run_cost import RunCost
from fusionc.report.table import percent_text, show_report, show_table, show_text, size_text
from fusionc.rewrite.log import PatternCount
from fusionc.verify.output_errors import OutputErrors

REASON = "the value [x] is used :smile: by " + ", ".join(f"node_{number}" for number in range(40))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report() -> Report:
    return Report(
        model=Path("in.onnx"),
        output=Path("out.onnx"),
        patterns=[
            PatternCount(
                0, "GraphFusion", "ConvBatchnormFusionPass", "a", effected=20, seconds=0.0123
            ),
            PatternCount(
                0, "GraphFusion", "ConvBatchnormFusionPass", "b", refused={REASON: 2, "dynamic": 1}
            ),
            PatternCount(0, "GraphFusion", "SubFusionPass", "sub"),
        ],
        operators_before={"BatchNormalization": 20, "Conv": 20, "Relu": 3},
        operators_after={"Conv": 20, "Relu": 3, "com.microsoft.FusedConv": 1},
        bytes_before=3 * 2**20,
        bytes_after=1536,
        verification="equal in 6 runs",
        notices=["only for Ascend chips, no effect in fusionc: A"],
        log_file=Path("log/plog-1_2.log"),
        counts=Path("fusion_result.json"),
        seconds=1.5,
        stages={"load": 0.5, "prepare": 0.004, "passes": 1.0},
    )


def test_a_pipe_gets_whole_lines() -> None:
    stream = io.StringIO()
    show_report(report(), stream)
    assert stream.getvalue().splitlines() == [
        "kind         pass                     matched  effected  refused    ms",
        "GraphFusion  ConvBatchnormFusionPass       23        20        3  12.3",
        "",
        "pass                     refused  because",
        "ConvBatchnormFusionPass        2  " + REASON,
        "ConvBatchnormFusionPass        1  dynamic",
        "",
        "operator                 before  after",
        "BatchNormalization           20      0",
        "com.microsoft.FusedConv       0      1",
        "",
        "nodes         43 -> 24",
        "size          3.0 MiB -> 1.5 KiB",
        "verification  equal in 6 runs",
        "notice        only for Ascend chips, no effect in fusionc: A",
        "log           log/plog-1_2.log",
        "counts        fusion_result.json; --export_compile_stat=0 does not write it",
        "output        out.onnx",
        "time          1.50 s (load 0.50, passes 1.00)",
    ]


def shown(monkeypatch: pytest.MonkeyPatch, width: int, what: Report) -> list[str]:
    """The lines that a terminal of that width gets, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Terminal()
    show_report(what, stream)
    return re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_terminal_gets_what_fits_with_every_word_whole(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    lines = shown(monkeypatch, width, report())
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert words.count("ConvBatchnormFusionPass") == 3 and words.count("GraphFusion") == 1
    assert "[x]" in words and ":smile:" in words and "com.microsoft.FusedConv" in words
    assert [f"node_{number}" for number in range(40)] == [
        w.rstrip(",") for w in words if w.startswith("node_")
    ]


LONG = "InferenceQbmmAllreduceAddFusionPass"  # the longest name of a pass


@pytest.mark.parametrize("width", [60, 80, 160])
def test_long_names_stay_whole_and_reasons_below_what_they_explain(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    what = report()
    counts = [
        PatternCount(
            0,
            "GraphFusion",
            LONG,
            "a",
            effected=1234,
            refused={REASON: 2, "dynamic": 1},
            seconds=9.9,
        )
    ]
    what.patterns = [*counts, PatternCount(0, "UBFusion", "AnyPass", "b", refused={"no reason": 1})]
    what.notices = [f"{LONG} is told of: {REASON}"]
    what.operators_after |= {"Add_Mul_split_0123456789abcdef": 3}
    lines = shown(monkeypatch, width, what)
    assert max(map(len, lines)) <= width
    words = [word.rstrip(",:") for line in lines for word in line.split()]
    assert words.count(LONG) == 4 and words.count("GraphFusion") == 1
    assert {"1237", "1234", "9900.0", "UBFusion", "Add_Mul_split_0123456789abcdef"} <= set(words)
    places = [words.index(word) for word in ("[x]", "node_39", "dynamic", "operator")]
    assert places == sorted(places)
    below = lines[line_with("[x]", lines) + 1 : line_with("node_39", lines) + 1]
    assert below and all(line.startswith("    ") for line in below)
    assert lines[line_with("notice", lines) + 1].startswith(" " * len("verification  "))


def line_with(words: str, lines: list[str]) -> int:
    """The number of the first line that holds these words."""
    return next(number for number, line in enumerate(lines) if words in line)


def test_80_columns_hold_a_table_of_the_longest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    what = report()
    what.patterns = [
        PatternCount(
            0, "GraphFusion", LONG, "a", effected=1234, refused={"dynamic": 1}, seconds=9.9
        )
    ]
    words = [line.split() for line in shown(monkeypatch, 80, what)]
    assert ["kind", "pass", "matched", "effected", "refused", "ms"] in words
    assert ["GraphFusion", LONG, "1235", "1234", "1", "9900.0"] in words


HEADERS = ["model", ">load ms", ">peak MB", ">p50 ms", ">p99 ms", ">ratio", ">bounds"]
NAMES = ["m.onnx", "a_rather_long_name_of_a_model_that_somebody_has_exported.onnx", "模型.onnx"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
@pytest.mark.parametrize("names", [NAMES[:1], NAMES, NAMES * 3], ids=["short", "long", "many"])
@pytest.mark.parametrize("text", ["", "what is wrong"], ids=["numbers", "text"])
def test_no_number_and_no_unit_is_cropped(
    monkeypatch: pytest.MonkeyPatch, width: int, names: list[str], text: str
) -> None:
    """They stay next to each other, too, where a row becomes a paragraph."""
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Terminal()
    headers = [*HEADERS, *filter(None, [text])]
    rows = [row_of(at, name)[: len(headers)] for at, name in enumerate(names)]
    show_table(headers, rows, stream)
    lines = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue()).splitlines()
    is_table = lines[0].split()[:3] == ["model", "load", "ms"]
    for header, cell in (pair for row in rows for pair in zip(headers, row, strict=True)):
        name = header.lstrip(">")
        expected = cell if is_table or name == header else f"{name} {cell}"
        assert is_shown(expected, lines, is_whole=name != header), expected
    assert not is_table or all(header.lstrip(">") in lines[0] for header in headers)
    assert all(len(line) <= width or line in names for line in lines)


def with_kernels() -> Report:
    """A report of a model with kernels and long names, in which every number is another one."""
    what = report()
    name = "a_rather_long_name_of_a_model_that_somebody_has_exported_with_kernels"
    what.output = Path(f"{name}.onnx")
    what.kernels = Path(f"{name}.kernels.so")
    what.areas = {
        "FusedConv_Add_split_0123456789abcdef": "area 1: 1176 operators, blocked",
        "MatMul_Gelu_split_fedcba9876543210": "area 2: 1027 operators",
    }
    what.operators_before = {"com.microsoft.QLinearGlobalAveragePool": 10239, "Conv": 4711}
    what.operators_after = {**dict.fromkeys(what.areas, 1), "Conv": 815}
    what.patterns = [
        PatternCount(
            0, "UBFusion", LONG, "a", effected=5417, refused={"no reason": 93}, seconds=1.2345
        )
    ]
    error = OutputErrors("all", f"{name}_output", 31, 7.5e-07, 0.00015, 0.987654321, "seed 2: [6]")
    what.outputs = [error]
    what.cost = RunCost(300774272, 13 * 2**20 + 7, 5 * 2**20, 0, True)
    what.bytes_before = 123 * 2**20
    what.stages = {"load": 0.17, "verify": 12.63}
    what.seconds = 14.25
    return what


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_number_and_no_unit_of_a_conversion_with_kernels_is_lost(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    stream = io.StringIO()
    show_report(with_kernels(), stream)
    whole = stream.getvalue()
    lines = shown(monkeypatch, width, with_kernels())
    text = "\n".join(lines)
    words = [word.rstrip(",") for word in text.split()]
    numbers = [word.rstrip(",") for word in whole.split() if any(map(str.isdigit, word))]
    assert len(numbers) > 30
    for number in numbers:
        assert number in words, number
    for with_unit in re.findall(r"[\d.]+ (?:[KMG]iB|million MACs|s\b|operators)", whole):
        assert with_unit in text, with_unit  # the unit is on the same line
    for line in lines:  # only a name that is too long itself sticks out
        assert len(line) <= width or max(map(len, line.split())) > width - len("verification  ")


def row_of(at: int, name: str) -> list[str]:
    numbers = [f"{at}1.25", f"{at}1061.5", f"{at}.072", f"{at}24.195", f"{at}.016", "0.5 to 1.77"]
    return [name, *numbers, "because the value is used elsewhere"]


def is_shown(text: str, lines: list[str], *, is_whole: bool) -> bool:
    """Whether a text is shown: on one line, or as single words."""
    if is_whole:
        return any(text in line for line in lines)
    return set(text.split()) <= {word for line in lines for word in line.split()}


def test_a_title_is_not_measured_by_its_longest_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    title = "operators of a model with a long name, profiled"
    show_table([title, ">nodes", ">ms"], [["Conv", "3", "0.055"]], stream)
    assert stream.getvalue().splitlines() == ["Conv", "    nodes 3, ms 0.055"]


def test_empty_numbers_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    show_table(["operator", ">nodes", ">milliseconds"], [["between them", "", "0.1"]], stream)
    assert stream.getvalue().splitlines() == ["between them", "    milliseconds 0.1"]


def test_the_last_column_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    show_table(["pass", "what"], [["A", f"it has a word {'x' * 50} and more"]], stream)
    assert stream.getvalue().splitlines() == [
        "pass  what",
        "─" * 40,
        "A     it has a word",
        f"      {'x' * 34}",
        f"      {'x' * 16} and more",
    ]


def test_areas_have_short_names(monkeypatch: pytest.MonkeyPatch) -> None:
    what = report()
    name = "MatMul_Add_Sum_LayerNormalization_MatMul_BiasGelu_MatMul_Add_Sum_blocked_ee511365f734"
    what.operators_after[name] = 1
    what.areas = {name: "area 1: 9 operators, blocked"}
    lines = shown(monkeypatch, 60, what)
    assert any(
        line.split() == ["area", "1:", "9", "operators,", "blocked", "0", "1"] for line in lines
    )
    assert not any("LayerNormalization" in line for line in lines)


def test_a_narrow_terminal_gets_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    rows = [
        ["ConvBatchnormFusionPass", "GraphFusion", "on", "Folds one into the other, and says so."]
    ]
    show_table(["pass", "kind", "default", "what it does"], rows, stream)
    assert stream.getvalue().splitlines() == [
        "ConvBatchnormFusionPass  GraphFusion  on",
        "    Folds one into the other, and says",
        "        so.",
    ]


def test_nothing_to_tell() -> None:
    stream = io.StringIO()
    show_report(Report(Path("in.onnx")), stream)
    assert stream.getvalue().splitlines() == [
        "no pass matched",
        "",
        "nodes         0 -> 0",
        "size          0 B -> 0 B",
        "verification  skipped",
        "time          0.00 s",
    ]


def test_why_nothing_was_verified_is_left_to_the_last_line_of_the_command() -> None:
    stream = io.StringIO()
    unverified = Report(Path("in.onnx"), verification="not verified: no kernel")
    show_report(unverified, stream)
    assert "verification  not verified\n" in stream.getvalue()
    assert "verification  not verified: no kernel" in str(unverified)


def last_line(of: Report) -> str:
    stream = io.StringIO()
    show_report(of, stream)
    return stream.getvalue().splitlines()[-1]


def test_operators_that_other_runtimes_lack_are_named_once() -> None:
    plain = report()
    plain.runtime_operators = ["com.microsoft.FusedConv", "com.microsoft.Gelu"]
    assert last_line(plain) == (
        "next          the result uses operators of onnxruntime: com.microsoft.FusedConv, "
        "com.microsoft.Gelu; --target onnx avoids them"
    )


def test_the_last_line_says_how_to_get_kernels_or_to_use_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = report()
    plain.may_get_kernels = True
    monkeypatch.setattr(table, "has_bfloat16", lambda: False)
    how = 'convert with --enable_graph_kernel, and load the result with fusionc.session("out.onnx")'
    assert last_line(plain) == (f"next          generated kernels may make the model faster: {how}")
    plain.kernel_gain = KernelGain(27, 30, True, before=4e-3, after=3e-3)
    assert last_line(plain) == (
        "next          by an estimate that is mostly too low, generated kernels save 25 % of the "
        f"time of 27 of the 30 operators: {how}"
    )
    monkeypatch.setattr(table, "has_bfloat16", lambda: True)
    assert last_line(plain).endswith("--precision_mode_v2=mixed_bfloat16 makes use of it")
    plain.kernel_gain = KernelGain(27, 30, False, before=4e-3, after=3e-3)
    assert last_line(plain).endswith(how)
    plain.kernel_gain = KernelGain(0, 30, False, before=0, after=0)
    assert last_line(plain).startswith("time ")
    plain.kernel_gain = None
    plain.cost = RunCost(0, 0, 64, 0, is_open=False)
    assert last_line(plain).startswith("time ")
    plain.cost = RunCost(1, 0, 64, 0, is_open=False)
    assert last_line(plain).startswith("next ")
    plain.verification = "not verified: no kernel"
    assert last_line(plain).startswith("time ")
    plain.kernels = Path("out.kernels.so")
    assert last_line(plain) == (
        'next          fusionc.session("out.onnx") loads the model with its kernels; without '
        'fusionc: SessionOptions.register_custom_ops_library("out.kernels.so")'
    )
    assert last_line(report()).startswith("time ")


def test_the_output_is_ascii_where_the_names_are() -> None:
    stream = io.StringIO()
    show_report(report(), stream)
    assert stream.getvalue().isascii()


def test_a_table_without_rows_is_its_headers() -> None:
    stream = io.StringIO()
    show_table(["pass", ">count"], [], stream)
    assert stream.getvalue() == "pass  count\n"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 * 2**20, "5.0 MiB"),
        (3 * 2**30, "3.00 GiB"),
    ],
)
def test_size_text(count: int, text: str) -> None:
    assert size_text(count) == text


def test_the_text_of_a_pass_keeps_its_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "What it does.\n\nafter    Conv(x, W·a, offset)\n"
        "refuses  training mode; weights that a narrow type\n         cannot hold; all else"
    )
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    pipe = io.StringIO()
    for stream in (terminal, pipe):
        show_text(text, stream)
    assert pipe.getvalue() == f"{text}\n"
    assert terminal.getvalue().splitlines() == [
        "What it does.",
        "",
        "after    Conv(x, W·a, offset)",
        "refuses  training mode; weights that a",
        "         narrow type",
        "         cannot hold; all else",
    ]


@pytest.mark.parametrize(
    ("after", "text"), [(9000, "-10.0 %"), (10010, "+0.1 %"), (9999, "< 0.1 %"), (10001, "< 0.1 %")]
)
def test_percent(after: int, text: str) -> None:
    assert percent_text(10000, after) == text
