"""Damage models, switch files and options at random, convert, and check that fusionc answers
correctly.

    python benchmarks/hostile_fuzz.py --runs 20000 --seed 0         twenty thousand runs, in two
                                                                    processes
    python benchmarks/hostile_fuzz.py --seed 0 --only 123           only run 123 of these, with its
                                                                    output
    python benchmarks/hostile_fuzz.py --more FOLDER                 also with the small models of a
                                                                    folder

The models are those of sample_models/ and of the tests. Bytes are flipped, cut, repeated, and
replaced by bytes of another model; names are exchanged. A run is right if it ends in time with exit
code 0, 1, 2 or 4. With exit code 0 it has verified its result. With 1 and 2 it prints one block of
text that does not mention a defect, and leaves the folder unchanged. A process that crashes is a
finding. A wrong result is a finding, too, unless the model gives different results in two runs,
because damaged models may read uninitialized memory. Exit code 1 if there are findings.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import ModelProto

ROOT = Path(__file__).parents[1]
for folder in ("benchmarks", "tests", "tests/hostile"):
    sys.path.insert(0, str(ROOT / folder))

from click.testing import CliRunner  # noqa: E402
from fuzz_models import snippets  # noqa: E402
from hostile_case import Case, assert_outcome, contents  # noqa: E402

from fusionc.cli import main as fusionc  # noqa: E402

_SECONDS = 180  # for one run; a step of onnxruntime has a limit of 5 seconds
_CHUNK = 1000  # runs in one process
_MEMORY = 8 << 30  # bytes of address space
_LARGEST_MODEL = 100_000  # bytes
_NAMES = re.compile(rb"[\x20-\x7e]{1,40}")
_NUMBERS = (0, 1, 2, 3, 4, 7, 9, 10, 16, 99, -1, -2, 1 << 20, 1 << 31, 1 << 62, -(1 << 63))
_WAYS: tuple[list[str], ...] = (  # ways to convert a damaged model
    [],
    [],
    ["--no-verify"],
    ["--no-verify"],
    ["--no-verify", "--external_weight", "1"],
    ["--optimization_switch", "FunctionInlinePass:on"],
    ["--enable_graph_kernel", "--target", "onnx", "--no-verify"],
    ["--target_opset", "21"],
)
_OPTIONS = (
    (
        "--optimization_switch",
        "IdentityPass:off;ConstantFoldingPass:on;MatMulBiasAddFusionPass:off",
    ),
    (
        "--graph_kernel_flags",
        "--opt_level=2 --disable_cluster_ops=Exp,Log --enable_expand_ops=Gelu",
    ),
    ("--input_shape", "x:1,3,8,8;y:2,-1;z:1~4"),
    ("--verify_shape", "x:1,3,8,8;y:2,-1"),
    ("--target_opset", "23"),
    ("--out_nodes", "Relu_1:0;y:0"),
    ("--output_type", "FP16"),
    ("--external_weight", "1"),
    ("--target", "onnx"),
    ("--log", "debug"),
    ("--timeout", "1"),
)


@functools.cache
def models(more: Path | None) -> list[bytes]:
    found = [snippet.model.SerializeToString() for part in snippets().values() for snippet in part]
    files = sorted(more.rglob("*.onnx")) if more is not None else []
    found += [path.read_bytes() for path in files if path.stat().st_size <= _LARGEST_MODEL]
    functions = ROOT / "sample_models" / "control_flow.onnx"
    return [
        *(model for model in found if len(model) <= _LARGEST_MODEL),
        *[functions.read_bytes()] * 20,
    ]


def _flip_bits(data: bytearray, rng: random.Random, at: int, length: int) -> None:
    for place in rng.sample(range(len(data)), min(len(data), rng.randint(1, 4))):
        data[place] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, rng: random.Random, at: int, length: int) -> None:
    for place in range(at, min(at + length, len(data))):
        data[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))


def _cut_out(data: bytearray, rng: random.Random, at: int, length: int) -> None:
    del data[at : at + length]


def _repeat(data: bytearray, rng: random.Random, at: int, length: int) -> None:
    data[at:at] = data[at : at + length]


def _cut_off(data: bytearray, rng: random.Random, at: int, length: int) -> None:
    del data[rng.randint(len(data) // 2, len(data)) :]


def _exchange_names(data: bytearray, rng: random.Random, at: int, length: int) -> None:
    names = _NAMES.findall(bytes(data))
    if names:
        old = rng.choice(names)
        like = [name for name in names if len(name) == len(old)]
        place = data.find(old, rng.randrange(len(data)))
        if place >= 0:
            data[place : place + len(old)] = rng.choice(like)


def damaged(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """The bytes after one to four random changes."""

    def transplant(data: bytearray, rng: random.Random, at: int, length: int) -> None:
        other = rng.choice(others)
        start = rng.randrange(len(other) + 1)
        data[at : at + length] = other[start : start + length]

    ways = (
        *(_flip_bits, _flip_bits, _overwrite, _cut_out, _repeat, transplant, _cut_off),
        *(_exchange_names, _exchange_names),
    )
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        at = rng.randrange(len(result) + 1)
        length = rng.choice((1, 1, 2, 4, 8, 64))
        ways[rng.randrange(len(ways))](result, rng, at, length)
    return bytes(result)


def twisted(data: bytes, rng: random.Random) -> bytes:
    """The model with one to three fields changed. It can still be parsed."""
    model = ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        messages: list[Message] = [model]
        for message in messages:
            for field, value in message.ListFields():
                if field.type == field.TYPE_MESSAGE:
                    messages += value if field.is_repeated else [value]
        texts = [node.name for node in model.graph.node] + [
            name for node in model.graph.node for name in node.output
        ]
        message = rng.choice(messages)
        present = [field for field, _ in message.ListFields()]
        field = rng.choice([*present, *present, *message.DESCRIPTOR.fields])
        # impossible changes are skipped
        with contextlib.suppress(ValueError, TypeError, IndexError, AttributeError):
            _change(message, field, texts, rng)
    return bytes(model.SerializeToString())


def _change(
    message: Message, field: FieldDescriptor, texts: Sequence[str], rng: random.Random
) -> None:
    value: Any = getattr(message, field.name)
    new = _other_value(field, texts, rng)
    what = rng.randrange(5)
    is_message = field.type == field.TYPE_MESSAGE
    if what == 0:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_repeated(value, what, None if is_message else new, rng)
    elif is_message:
        value.SetInParent()
    else:
        setattr(message, field.name, new)


def _other_value(field: FieldDescriptor, texts: Sequence[str], rng: random.Random) -> Any:
    """A random value that is valid for a field; any number for a message."""
    number = rng.choice(_NUMBERS)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e38))
    if field.type == field.TYPE_STRING:
        return rng.choice([*texts, "", "x"])
    if field.type == field.TYPE_BYTES:
        return rng.choice((b"", b"\0", b"x" * 100))
    if field.type == field.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    return number


def _change_repeated(value: Any, what: int, new: Any, rng: random.Random) -> None:
    """Delete, add or replace one of several values. If `new` is None, the values are messages,
    which are copied.
    """
    if what == 1 and value:
        del value[rng.randrange(len(value))]
    elif new is None:
        value.add().CopyFrom(rng.choice(value))
    elif what == 2:
        value.append(new)
    elif what == 3:
        value[rng.randrange(len(value))] = new
    else:
        value.append(rng.choice(value))


def spoilt(text: str, rng: random.Random) -> str:
    """The text of an option with a few characters changed."""
    result = list(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(result) + 1)
        what = rng.choice(
            (
                ":",
                ";",
                ",",
                "=",
                "-",
                " ",
                "\n",
                "\x1b",
                "é",
                "９",
                '"',
                "0",
                "~",
                chr(rng.randrange(32, 0xD000)),
            )
        )
        result[at : at + rng.randrange(3)] = what * rng.choice((1, 1, 1, 30))
    return "".join(result)


def run(seed: int, number: int, folder: Path, more: Path | None = None) -> tuple[str, str]:
    """The kind of outcome of a run, and a description of the fault. Empty if there is none."""
    rng = random.Random(f"{seed} {number}")
    kind, words = _hostile_command(folder, more, rng)
    before = contents(folder)
    started = time.monotonic()
    result = CliRunner().invoke(fusionc, words, prog_name="fusionc")
    took = time.monotonic() - started
    if result.exit_code == 3 and _differs_from_itself():
        return f"{kind}, gives another answer each time", ""
    writes = ("fusion_result.json", *(name for name in contents(folder) if name.startswith("o.")))
    case = Case("", lambda _: None, exit_code=result.exit_code, writes=writes)
    complaint = ""
    try:
        assert result.exit_code in (0, 1, 2, 4), (
            f"exit code {result.exit_code}\n{result.stdout}{result.stderr}"
        )
        assert took < _SECONDS, f"it took {took:.0f} s"
        assert_outcome(case, folder, before, result.exit_code, result.stdout, result.stderr)
    except AssertionError as error:
        said = f"{result.stdout[-2000:]}{result.stderr[-3000:]}{result.exception!r}"
        complaint = f"{words}\n{str(error).splitlines()[0]}\n{said}"
    return f"{kind}, exit code {result.exit_code}", complaint


def _hostile_command(folder: Path, more: Path | None, rng: random.Random) -> tuple[str, list[str]]:
    """Write the files of a run. Return a description of the damage, and the command's words."""
    stock = models(more)
    kind = rng.choice(("model", "model", "model", "model", "model", "model", "switches", "options"))
    data = rng.choice(stock)
    words = ["convert", "--model", "m.onnx", "--output", "o.onnx"]
    if kind == "model":
        data = damaged(data, stock, rng) if rng.random() < 0.5 else twisted(data, rng)
        words += rng.choice(_WAYS)
    (folder / "m.onnx").write_bytes(data)
    if kind == "switches":
        files = [path.read_bytes() for path in sorted((ROOT / "switch_configs").glob("*.json"))]
        (folder / "s.json").write_bytes(damaged(rng.choice(files), files, rng))
        words += ["--fusion_switch_file", "s.json"]
    elif kind == "options":
        option, value = rng.choice(_OPTIONS)
        words += [option, spoilt(value, rng)]
    if "--timeout" not in words:
        words += ["--timeout", "5"]
    return kind, words


def _differs_from_itself() -> bool:
    again = (
        CliRunner().invoke(fusionc, ["verify", "m.onnx", "m.onnx", "--timeout", "5"])
        for _ in range(5)
    )
    return any(result.exit_code == 3 for result in again)


def one(seed: int, number: int, more: Path | None = None) -> tuple[str, str]:
    """One run in a folder of its own."""
    back = Path.cwd()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "folder")
        temporary = Path(parent, "temporary")
        folder.mkdir()
        temporary.mkdir()
        before = tempfile.tempdir
        tempfile.tempdir = str(temporary)
        os.chdir(folder)
        try:
            kind, complaint = run(seed, number, folder, more)
            left = [path.name for path in temporary.iterdir()]
        finally:
            os.chdir(back)
            tempfile.tempdir = before
    return kind, complaint or (f"left behind: {left}" if left else "")


def _work(end: Any, seed: int, numbers: Sequence[int], more: Path | None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for number in numbers:
        end.send(one(seed, number, more))


def results(seed: int, numbers: Sequence[int], more: Path | None) -> Iterator[tuple[int, str, str]]:
    """The number, outcome and complaint of each run. A process that crashes or hangs is a finding,
    and a new process continues.
    """
    context = multiprocessing.get_context("fork")
    left = list(numbers)
    while left:
        ours, theirs = context.Pipe()
        part = left[:_CHUNK]
        left = left[_CHUNK:]
        child = context.Process(target=_work, args=(theirs, seed, part, more))
        child.start()
        theirs.close()
        while part:
            number = part.pop(0)
            try:
                if not ours.poll(2 * _SECONDS):
                    child.kill()
                    raise EOFError
                yield (number, *ours.recv())
            except EOFError:
                child.join()
                yield number, "died", f"the process died or hung, exit code {child.exitcode}"
                left = part + left
                break
        child.join()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one run alone, in this process")
    parser.add_argument("--more", type=Path, help="a folder with more models")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    os.environ["FUSIONC_PROCESS_LOG_PATH"] = tempfile.mkdtemp(prefix="fusionc-fuzz-log-")
    if options.only is not None:
        kind, complaint = one(options.seed, options.only, options.more)
        print(f"{kind}\n{complaint}")
        return int(bool(complaint))
    models(options.more)
    numbers = range(options.first, options.first + options.runs)
    parts = [numbers[i :: options.processes] for i in range(options.processes)]
    total = Counter[str]()
    findings = 0
    started = time.perf_counter()

    def follow(part: Sequence[int]) -> None:
        nonlocal findings
        for number, kind, complaint in results(options.seed, part, options.more):
            total[kind] += 1
            if complaint:
                findings += 1
                print(
                    (
                        f"# python benchmarks/hostile_fuzz.py --seed {options.seed} --only "
                        f"{number}\n{complaint}\n"
                    ),
                    flush=True,
                )
            if total.total() % 500 == 0:
                print(
                    (
                        f"{total.total()} runs, {findings} findings, "
                        f"{time.perf_counter() - started:.0f} s"
                    ),
                    flush=True,
                )

    with ThreadPoolExecutor(options.processes) as pool:
        list(pool.map(follow, parts))
    for kind, count in sorted(total.items()):
        print(f"{count:6}  {kind}")
    print(f"{total.total()} runs, {findings} findings, {time.perf_counter() - started:.0f} s")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
