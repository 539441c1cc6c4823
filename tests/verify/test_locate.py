"""The first value inside of two models that differs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from harness import parse
from onnx import numpy_helper

import fusionc
from fusionc.cli import main
from fusionc.errors import FusioncError, UsageError
from fusionc.runtime.run_errors import OutOfMemory
from fusionc.runtime.runner import Runner
from fusionc.verify import locate as locating
from fusionc.verify.locate import Located, locate
from fusionc.verify.model_part import SeenModel

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

ROOT = Path(__file__).parents[2]
CHAIN = """agraph (float[N,4] x) => (float[N,4] y) {{
    a = Relu (x) b = Exp (a) c = {}(b) d = Neg (c) e = Abs (d) y = Sqrt (e) }}"""


def located(
    reference: str | onnx.ModelProto, candidate: str | onnx.ModelProto, **options: object
) -> Located:
    for name, model in {"a": reference, "b": candidate}.items():
        onnx.save(parse(model) if isinstance(model, str) else model, f"{name}.onnx")
    return locate(Path("a.onnx"), Path("b.onnx"), **options)


def test_the_first_value_that_differs_and_who_makes_it() -> None:
    found = located(CHAIN.format("Sin "), CHAIN.format("Cos "))
    assert (found.name, found.compared, found.shared) == ("c", 2, 6)
    assert found.sample == "seed 0, N=2" and "elements differ" in found.reason
    assert found.reference.startswith("Sin") and found.candidate.startswith("Cos")


def test_what_large_values_alone_show() -> None:
    constants = "float low = {-%s}, float high = {%s}"
    text = f"agraph (float[N,4] x) => (float[N,4] y) <{constants}> {{ c = Clip (x, low, high) y = Neg (c) }}"
    found = located(text % (99, 99), text % (990, 990))
    assert found.name == "c" and found.sample.startswith("mixed magnitudes, seed 0")


def test_a_constant_that_makes_the_difference() -> None:
    text = "agraph (float[N,2] x) => (float[N,2] y) <float[2] c = {%s}> { m = Mul (x, c) y = Relu (m) }"
    found = located(text % "1, 2", text % "1, 3")
    assert (
        found.name == "m"
        and found.reason.endswith("; it is computed from another constant: c")
        and not found.is_inner
    )


def test_a_name_that_stands_for_something_else() -> None:
    text = "agraph (float[N,2] x) => (float[N,2] y) { %s = Exp (x) %s = Neg (%s) y = Relu (%s) }"
    found = located(text % ("t1", "t2", "t1", "t2"), text % ("t2", "t1", "t2", "t1"))
    assert (found.name, found.is_inner) == ("t1", True)
    assert "differs is t1, the very first of 3 values that both models have: seed 0" in str(found)
    assert str(found).endswith(
        "the outputs are the same: this name may mean another value in the candidate"
    )


@pytest.mark.parametrize("most", [1, 2, 3, 512])
def test_whatever_is_compared_in_one_go(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(locating, "_FIRST", 1)
    monkeypatch.setattr(locating, "_MOST", most)
    lines: list[str] = []
    found = located(CHAIN.format("Sin "), CHAIN.format("Cos "), progress=lines.append)
    assert (found.name, found.compared) == ("c", 2)
    assert lines[0] == "comparing 1 to 1 of 6 values" and len(lines) == (3 if most == 1 else 2)


@pytest.mark.parametrize(
    "name", ["conv_bn", "matmul_bias", "split_concat", "transformer_block", "control_flow"]
)
def test_nothing_differs_in_what_a_conversion_makes(name: str) -> None:
    source = ROOT / "sample_models" / f"{name}.onnx"
    fusionc.convert(source, output="b.onnx", verify=False)
    found = locate(source, Path("b.onnx"))
    assert not found.name and found.compared == found.shared > 0
    assert (
        str(found) == f"all {found.shared} values that both models have are equal on finite inputs"
    )


@pytest.mark.parametrize("ir_version", [9, 10])
def test_where_a_node_comes_from_is_told(ir_version: int) -> None:
    """In the metadata of a node, or in older models in its text."""
    text = """agraph (float[N,3,8,8] x) => (float[N,4,8,8] y)
    <float[4,3,3,3] W, float[4] s, float[4] b, float[4] m, float[4] v>
    { c = Conv <pads = [1,1,1,1]> (x, W) n = BatchNormalization (c, s, b, m, v) y = Relu (n) }"""
    model = parse(text)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            numpy_helper.from_array(
                rng.uniform(0.5, 1.5, tensor.dims).astype(np.float32), tensor.name
            )
        )
    model.ir_version = ir_version
    for node in model.graph.node:
        node.name = f"the {node.op_type}"
    onnx.save(model, "in.onnx")
    fusionc.convert(
        "in.onnx",
        output="out.onnx",
        optimization_switch="TbeConvElemwiseFusionPass:off",
        verify=False,
    )
    wrong = onnx.load("out.onnx")
    bias = next(t for t in wrong.graph.initializer if list(t.dims) == [4])
    bias.CopyFrom(numpy_helper.from_array(np.zeros(4, np.float32), bias.name))
    found = located(model, wrong)
    assert found.name == "n" and found.reference == "BatchNormalization the BatchNormalization"
    assert re.match(
        "Conv .*, made by ConvBatchnormFusionPass from the BatchNormalization, the Conv$",
        found.candidate,
    )


def test_what_only_the_users_data_show() -> None:
    clipped = CHAIN.format("Abs ").replace(
        "a = Relu (x)", "hi = Constant <value = float {99}> () a = Clip (x, , hi)"
    )
    plain = CHAIN.format("Abs ").replace("a = Relu (x)", "a = Identity (x)")
    assert not located(plain, clipped).name
    np.savez("data.npz", x=np.float32([[1, 2, 3, 100]]))
    found = located(plain, clipped, inputs=Path("data.npz"))
    assert (found.name, found.sample) == ("a", "data.npz")


def test_rounding_that_the_model_amplifies_is_no_difference() -> None:
    text = """agraph (float[N,64] x) => (float[N,64] y)
        <float whole = {{99999.9}}, float a = {{3.3}}, float b = {{30303}}> {{ m = {} s = Sin (m) y = {} (s) }}"""
    once = text.format("Mul (x, whole)", "Neg")
    twice = text.format("Mul (p, b)", "Neg")
    found = located(once, twice.replace("m =", "p = Mul (x, a) m ="))
    assert (found.name, found.compared, found.excused) == ("", 3, 2)
    assert "(2 of them except for rounding that the model amplifies)" in str(found)
    assert located(once, once.replace("Neg", "Abs")).name == "y"


def test_models_without_common_names() -> None:
    found = located(
        CHAIN.format("Sin "), "agraph (float[N,4] x) => (float[N,4] z) { z = Relu (x) }"
    )
    assert str(found) == "the models have no values of the same name, except for inputs and outputs"


def test_sequences_and_values_of_subgraphs() -> None:
    text = """agraph (float[N,4] x, bool flag) => (float[M,4] y) {{
        s = SequenceConstruct (x, x)
        c = If (flag) <then_branch = t () => (float[K,4] i) {{ i = {} (x) }},
                       else_branch = e () => (float[K,4] j) {{ j = Neg (x) }}>
        k = ConcatFromSequence <axis = 0> (s) y = Add (k, c) }}"""
    same = text.replace("y = Add (k, c)", "m = Add (x, c) y = Concat <axis = 0> (k, m)")
    assert not located(same.format("Sin"), same.format("Sin")).name
    assert located(same.format("Sin"), same.format("Cos")).name == "c"


def test_random_nodes_draw_the_same_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locating, "_FIRST", 1)
    text = (
        "agraph (float[N,4] x) => (float[N,4] y) {{ {} b = RandomNormalLike (a) y = Add (a, b) }}"
    )
    one = "a = RandomNormalLike (x)"
    other = "i = Identity (x) j = Identity (i) a = RandomNormalLike (j)"
    assert not located(text.format(one), text.format(other)).name


def test_large_values_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locating, "_BYTES", 1)
    lines: list[str] = []
    located(CHAIN.format("Sin "), CHAIN.format("Sin "), progress=lines.append)
    once = [
        "comparing 1 to 4 of 6 values",
        "comparing 5 to 5 of 6 values",
        "comparing 6 to 6 of 6 values",
    ]
    assert lines == 2 * once, "of ordinary values, and of mixed magnitudes"


def weighted(size: int) -> onnx.ModelProto:
    """Weights of 200 rows and more are mapped from the file of the model."""
    shape = f"{size},{size}"
    model = parse(f"""agraph (float[N,{size}] x) => (float[N,{size}] y) <float[{shape}] v, float[{shape}] w> {{
        a = MatMul (x, v) b = Neg (a) y = MatMul (b, w) }}""")
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            numpy_helper.from_array(
                rng.standard_normal((size, size)).astype(np.float32), tensor.name
            )
        )
    return model


@pytest.mark.parametrize("is_external", [False, True])
@pytest.mark.parametrize("size", [64, 200])
def test_weights_stay_in_files(
    monkeypatch: pytest.MonkeyPatch, size: int, is_external: bool
) -> None:
    sources: list[object] = []
    original = Runner.__init__

    def remembering(self: Runner, source: Path | bytes, **options: Any) -> None:
        sources.append(source)
        original(self, source, **options)

    monkeypatch.setattr(Runner, "__init__", remembering)
    onnx.save(
        weighted(size),
        "a.onnx",
        save_as_external_data=is_external,
        location="weights",
        size_threshold=0,
    )
    onnx.save(
        weighted(size),
        "b.onnx",
        save_as_external_data=is_external,
        location="other",
        size_threshold=0,
    )
    assert locate(Path("a.onnx"), Path("b.onnx")).compared == 3
    parts = [source for source in sources if isinstance(source, bytes)]
    assert len(parts) == 4 and all(len(part) < 2000 for part in parts), (
        "for ordinary values, and for mixed magnitudes"
    )


def test_another_large_weight_makes_the_difference() -> None:
    changed = weighted(200)
    values = numpy_helper.to_array(changed.graph.initializer[0]).copy()
    values[3, 5] += 1
    changed.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "v"))
    found = located(weighted(200), changed)
    assert found.name == "a" and found.reason.endswith("; it is computed from another constant: v")


def test_less_at_once_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SeenModel.runner
    asked = list[int]()

    def hungry(self: SeenModel, names: Sequence[str]) -> Runner:
        asked.append(len(names))
        if len(names) > 1 or "d" in names:
            raise OutOfMemory("no memory")
        return original(self, names)

    monkeypatch.setattr(SeenModel, "runner", hungry)
    same = located(CHAIN.format("Sin "), CHAIN.format("Sin "))
    assert same.compared == 5 and same.skipped == ("d",) and max(asked) == 4
    assert str(same) == (
        "all 5 values that both models have are equal on finite inputs (1 left out for lack "
        "of memory)"
    )
    assert located(CHAIN.format("Sin "), CHAIN.format("Cos ")).name == "c"


def test_models_that_do_not_run() -> None:
    with pytest.raises(
        FusioncError, match=r"onnxruntime cannot run the models in parts: .*Nonsense"
    ) as caught:
        located(
            CHAIN.format("Sin "), "agraph (float[N,4] x) => (float[N,4] a) { a = Nonsense (x) }"
        )
    assert caught.value.hint.startswith("compare the models without --locate")
    with pytest.raises(UsageError, match="does not exist"):
        locate(Path("a.onnx"), Path("no.onnx"))


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    located(CHAIN.format("Sin "), CHAIN.format("Cos "))
    found = CliRunner().invoke(main, ["verify", "a.onnx", "b.onnx", "--locate"])
    assert found.exit_code == 3 and len(found.stdout.splitlines()) == 3
    assert found.stdout.startswith(
        "the first value that differs is c, after 2 of 6 that both models have: seed 0, N=2: "
    )
    same = CliRunner().invoke(main, ["verify", "a.onnx", "a.onnx", "--locate"])
    assert (same.exit_code, same.stdout) == (
        0,
        "all 6 values that both models have are equal on finite inputs\n",
    )


def test_the_command_of_the_documentation() -> None:
    onnx.save(parse(CHAIN.format("Sin ")), "model.onnx")
    onnx.save(parse(CHAIN.format("Cos ")), "fused.onnx")
    (command,) = re.findall(
        "^fusionc (verify .*--locate.*)$", (ROOT / "docs/verification.md").read_text(), re.MULTILINE
    )
    assert (
        CliRunner()
        .invoke(main, command.split())
        .stdout.startswith("the first value that differs is c")
    )


def test_what_only_other_values_of_initializers_show() -> None:
    text = """agraph (float[N,3] x, float[3] w) => (float[N,3] y)
        <float[3] w = {{1,2,3}}, float[3] fixed = {{1,2,3}}> {{
        m = Mul (x, {}) y = Neg (m) }}"""
    assert located(text.format("w"), text.format("w")).name == ""
    found = located(text.format("w"), text.format("fixed"))
    assert found.name == "m" and found.sample.startswith("initializers overridden")
