"""Write what is derived from the registry and the command line, or check with --check that it is
fresh.

docs/passes.md          all passes with their documentation
docs/writing_a_pass.md  its tables of helpers; the rest of it is written by hand
docs/cli.md             every --help
docs/graphsurgeon.md    the calls of onnx-graphsurgeon that work in passes, and what to use for the
                        others
docs/architecture.md    the rooms in it
docs/errors.md          the codes of errors, and the exit codes
docs/benchmarks.md      its tables of means, from what benchmarks/ have written into docs/measured/
docs/quantized.md       the same of quantized models
docs/measured/means.svg the chart of README.md, from the same table
switch_configs/*.json   the presets of `fusionc switch_file`
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click
from chart import chart, ratios
from click.testing import CliRunner

from fusionc.cli import main as cli
from fusionc.cli.atc_options import IGNORED, REFUSED
from fusionc.cli.exit_codes import EXIT_CODES
from fusionc.errors import CODES
from fusionc.model.graphsurgeon import CHANGES, MISSING, WORKS
from fusionc.passes import PASSES
from fusionc.rewrite import Pass
from fusionc.switches import PRESETS, PassNames, preset

ROOT = Path(__file__).parent.parent
NOTE = (
    "<!-- Written by docs/generate.py from the registry of passes; `make docs` writes it anew. -->"
)


def passes_page(passes: Sequence[Pass]) -> str:
    lines = [NOTE, "", "# The passes, in the order in which they run", ""]
    lines += [
        (
            "Each is a file in the folder of its topic, `fusionc/passes/<topic>/`; some topics "
            "have "
            "several turns."
        )
    ]
    for topic, group in groupby(passes, lambda p: type(p).__module__.split(".")[-2]):
        lines += [
            "",
            f"### {topic}",
            "",
            "| pass | kind | default | numerics | what it does |",
            "|---|---|---|---|---|",
        ]
        lines += [
            (
                f"| [{p.name}](#{p.name.lower()}) | {p.kind} | {p.default} | {p.numerics} | "
                f"{p.summary} |"
            )
            for p in group
        ]
    for p in passes:
        lines += ["", f"## {p.name}", ""]
        lines += [f"- patterns: {', '.join(pattern.name for pattern in p.patterns) or 'none'}"]
        lines += (
            ["- NaN and Inf may give other results, verification leaves them out"]
            if p.is_for_finite
            else []
        )
        lines += [f"- other names: {', '.join(p.aliases)}"] if p.aliases else []
        lines += [f"- never matches: {p.never_matches}"] if p.never_matches else []
        lines += ["- switched by `--pattern_fusion_pass`, too"] if p.is_pattern_fusion else []
        lines += ["", "```text", p.documentation, "```"]
    lines += [
        "",
        "## Other names",
        "",
        "A name of CANN, MindSpore or TorchAir switches every pass that does its work.",
    ]
    lines += ["", "| name | stands for |", "|---|---|"]
    lines += [
        f"| {name} | {', '.join(p.name for p in found)} |"
        for name, found in PassNames(passes).aliases()
    ]
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    lines = [
        NOTE.replace("the registry of passes", "the command line's --help"),
        "",
        "# The command line",
    ]
    for words in ([], *([name] for name in cli.list_commands(click.Context(cli)))):
        result = CliRunner().invoke(
            cli, [*words, "--help"], prog_name="fusionc", terminal_width=100
        )
        lines += [
            "",
            f"## fusionc {' '.join(words)}".rstrip(),
            "",
            "```text",
            result.output.rstrip(),
            "```",
        ]
    lines += [
        "",
        "## ATC's other options",
        "",
        "Those that would change the result are refused, with exit code 2:",
        "",
    ]
    lines += ["| option | asks for | what to do instead |", "|---|---|---|"]
    for name, option in REFUSED.items():
        harmless = ", ".join(f"`{value}`" for value in option.harmless)
        values = f" (except {harmless})" if harmless else ""
        instead = option.instead
        lines.append(f"| `--{name}`{values} | {option.asks_for} | {instead} |")
    lines += [
        "",
        "These are accepted, have no effect, and are named in a notice:",
        "",
        "| options | why |",
        "|---|---|",
    ]
    lines += [
        f"| {', '.join(f'`--{name}`' for name in names.split())} | {why} |"
        for why, names in IGNORED.items()
    ]
    return "\n".join(lines) + "\n"


def graphsurgeon_page() -> str:
    lines = [
        NOTE.replace("the registry of passes", "fusionc/model/graphsurgeon.py"),
        "",
        "# Calls of onnx-graphsurgeon",
        "",
    ]
    lines += [
        (
            "The graph that a pass of your own sees is one of onnx-graphsurgeon's nodes and "
            "tensors: `extra_check` and"
        )
    ]
    lines += [
        (
            "`Pass.rewrite` get them as `m.x` and `m.conv`, and `find` as `graph`. It is read as "
            "there:"
        ),
        "",
    ]
    lines += [
        "```python",
        'if m.conv.o().op == "Relu" and isinstance(m.conv.inputs[1], gs.Constant):',
        "    ...",
        "```",
        "",
    ]
    lines += [
        (
            "It is changed by what `rewrite` returns alone. What would change it otherwise is a "
            "TypeError, and what there"
        )
    ]
    lines += [
        (
            "is not an AttributeError, which say what to do instead; equality of nodes and "
            "tensors is identity. Users'"
        )
    ]
    lines += ["passes are in [custom_passes.md](custom_passes.md), and in"]
    lines += ["[writing_a_pass.md](writing_a_pass.md) those that are more than two functions.", ""]
    lines += ["## What works", "", "| of | name | what differs |", "|---|---|---|"]
    lines += [
        f"| {kind} | `{name}` | {note} |"
        for kind, names in WORKS.items()
        for name, note in names.items()
    ]
    lines += [
        "",
        "## What there is not",
        "",
        "| of | name | what to use instead |",
        "|---|---|---|",
    ]
    lines += [
        f"| {kind} | `{name}` | {note} |"
        for kind, names in MISSING.items()
        for name, note in names.items()
    ]
    lines += ["", "## What would change the graph", ""]
    lines += [
        (
            "Assigning any of the names that work, and whatever changes `inputs`, `outputs`, "
            "`attrs` or `nodes` in place."
        ),
        "",
    ]
    lines += ["| of | what to do instead |", "|---|---|"]
    lines += [f"| {kind} | {note} |" for kind, note in CHANGES.items()]
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    lines = [NOTE.replace("the registry of passes", "fusionc/errors.py and --help"), ""]
    lines += ["# Errors", "", "## Exit codes", "", "```text"]
    lines += EXIT_CODES.splitlines()[2:]
    lines += ["```", "", "## Codes", ""]
    lines += [
        "An error has a code, says what is wrong, where (`where:`), and what to do now (`to do:`).",
        "`--log debug` adds a traceback. The codes are ATC's.",
        "",
        "| code | what it means | what to do |",
        "|---|---|---|",
    ]
    lines += [f"| {code} | {meaning} | {advice} |" for code, (meaning, advice) in CODES.items()]
    return "\n".join(lines) + "\n"


def helper_tables() -> Iterator[str]:
    """What the helpers of passes answer, by their docstrings: first those of all topics."""
    package = ROOT / "fusionc/passes"
    for path in [
        *sorted(package.glob("_shared/[a-z]*.py")),
        *sorted(package.glob("[a-z]*/_[a-z]*.py")),
    ]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from ["", f"`{path.parent.name}/{path.name}`: {first_paragraph(tree)}", ""]
        yield from ["| question | helper |", "|---|---|"]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield f"| {first_paragraph(node)} | `{signature(node)}` |"


def first_paragraph(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())


def signature(node: ast.ClassDef | ast.FunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        return node.name
    several = [f"*{node.args.vararg.arg}"] if node.args.vararg else []
    names = [
        *(a.arg for a in node.args.args),
        *several,
        *(f"{a.arg}=" for a in node.args.kwonlyargs),
    ]
    return f"{node.name}({', '.join(names)})"


def rooms() -> Iterator[str]:
    """The folders and top-level modules of fusionc, with the first paragraph of each docstring."""
    yield from ("", "```text", "fusionc/")
    package = ROOT / "fusionc"
    modules = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    folders = [path.parent for path in package.rglob("__init__.py") if path.parent != package]
    for path in (*sorted(modules), *sorted(folders)):
        source = path if path.is_file() else path / "__init__.py"
        said = first_paragraph(ast.parse(source.read_text(encoding="utf-8")))
        name = (
            "  " * len(path.relative_to(package).parts) + path.name + ("/" if path.is_dir() else "")
        )
        yield from textwrap.wrap(
            said, 120, initial_indent=f"{name:<22}", subsequent_indent=" " * 22
        )
    yield "```"


def means(measured: str) -> Iterator[str]:
    """What a benchmark says of all models together."""
    page = (ROOT / f"docs/measured/{measured}.md").read_text(encoding="utf-8")
    for line in page.partition("\n| model |")[0].splitlines():
        yield from [line] if line.startswith("|") else textwrap.wrap(line, 120) or [""]


def filled(page: str, name: str, lines: Iterable[str]) -> str:
    """A page that is written by hand, with the lines of the part between its two marks as they are
    now.
    """
    before, begin, rest = page.partition(f"<!-- {name}: written by docs/generate.py -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    return "".join([before, begin, *(f"{line}\n" for line in lines), "\n", end, after])


def files(passes: Sequence[Pass]) -> Iterator[tuple[Path, str]]:
    yield ROOT / "docs/passes.md", passes_page(passes)
    yield ROOT / "docs/cli.md", cli_page()
    yield ROOT / "docs/graphsurgeon.md", graphsurgeon_page()
    yield ROOT / "docs/errors.md", errors_page()
    parts = {
        "docs/writing_a_pass.md": {"helpers": helper_tables()},
        "docs/architecture.md": {"rooms": rooms()},
        "docs/benchmarks.md": {"means": means("models"), "unseen": means("unseen")},
        "docs/quantized.md": {
            "low_precision": means("low_precision"),
            "quantized_files": means("quantized_files"),
        },
    }
    for name, of_page in parts.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        for part, lines in of_page.items():
            page = filled(page, part, lines)
        yield ROOT / name, page
    title = "Time of a run, as a share of the original model's (lower is faster)"
    yield ROOT / "docs/measured/means.svg", chart(ratios(means("models")), title)
    for name in PRESETS:
        yield ROOT / f"switch_configs/{name}.json", preset(name, passes)


def main() -> int:
    stale = []
    for path, content in files(PASSES):
        if "--check" not in sys.argv:
            path.write_text(content, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != content:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        print(f"not what the registry says: {', '.join(stale)}; run `make docs`")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
