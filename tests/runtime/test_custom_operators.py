"""Operators that onnxruntime does not have, in libraries that the user names."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from harness import parse
from onnx import ModelProto, helper, numpy_helper

import fusionc
from fusionc.cli import main
from fusionc.errors import UsageError
from fusionc.graph_kernel.c.compile import Unit, compile_units, compiler
from fusionc.runtime.custom_operators import custom_operators, require_loadable
from fusionc.runtime.runner import Runner, fault_of_loading

ROOT = Path(__file__).parents[2]
HEADER = (resources.files("fusionc.graph_kernel.c") / "onnxruntime_api.h").read_text()
TIMES = (  # y = FACTOR * x, as test.custom::Times
    HEADER
    + r"""
#include <stdlib.h>
static OrtApi *api;
static const char *name(const OrtCustomOp *op) { return (void)op, "Times"; }
static const char *provider(const OrtCustomOp *op) { return (void)op, (const char *)NULL; }
static size_t one(const OrtCustomOp *op) { return (void)op, (size_t)1; }
static int is_float(const OrtCustomOp *op, size_t i) { return (void)op, (void)i, 1; }
static int nothing(const OrtCustomOp *op, size_t i) { return (void)op, (void)i, 0; }
static int version(const OrtCustomOp *op) { return (void)op, 1; }
static void destroy(void *kernel) { (void)kernel; }
static OrtStatus *create(const OrtCustomOp *op, OrtApi *a, const OrtKernelInfo *info, void **kernel) {
  return (void)op, (void)a, (void)info, *kernel = NULL, (OrtStatus *)NULL;
}
static OrtStatus *compute(void *self, OrtKernelContext *context) {
  const OrtValue *in;
  OrtValue *out;
  OrtShape *shape;
  float *x, *y;
  size_t rank, count = 1;
  int64_t dims[8];
  (void)self;
  GK_ORT_GetInput(api)(context, 0, &in), GK_ORT_GetData(api)((OrtValue *)(uintptr_t)in, (void **)&x);
  GK_ORT_GetShape(api)(in, &shape), GK_ORT_GetRank(api)(shape, &rank), GK_ORT_GetDimensions(api)(shape, dims, rank);
  GK_ORT_ReleaseShape(api)(shape);
  for (size_t i = 0; i < rank; ++i) count *= (size_t)dims[i];
  GK_ORT_GetOutput(api)(context, 0, dims, rank, &out), GK_ORT_GetData(api)(out, (void **)&y);
  for (size_t i = 0; i < count; ++i) y[i] = FACTOR * x[i];
  return NULL;
}
static const OrtCustomOp times = {
  .version = GK_OPERATOR, .GetName = name, .GetExecutionProviderType = provider, .GetInputType = is_float,
  .GetInputTypeCount = one, .GetOutputType = is_float, .GetOutputTypeCount = one, .KernelDestroy = destroy,
  .GetInputCharacteristic = nothing, .GetOutputCharacteristic = nothing, .GetInputMemoryType = nothing,
  .CreateKernelV2 = create, .KernelComputeV2 = compute, .GetStartVersion = version, .GetEndVersion = version};
OrtStatus *REGISTER(OrtSessionOptions *options, const OrtApiBase *base) {
  OrtDomain *domain;
  if (FACTOR == 0) abort();
  api = base->GetApi(GK_API);
  GK_ORT_CreateDomain(api)("test.custom", &domain), GK_ORT_AddOperator(api)(domain, &times);
  return GK_ORT_AddDomain(api)(options, domain);
}
"""
)
X = np.arange(64, dtype=np.float32)[None]


def library(path: Path, factor: float = 2, register: str = "RegisterCustomOps") -> Path:
    path.parent.mkdir(exist_ok=True)
    compile_units(
        compiler(), ["-fPIC", f"-DFACTOR={factor}", f"-DREGISTER={register}"], [Unit(TIMES)], path
    )
    return path


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory, needs_a_compiler: None) -> Path:
    return library(tmp_path_factory.mktemp("library") / "libdouble.so")


def times(*more: str) -> ModelProto:
    """x * 2, by the custom operator, and nodes that make `y` of `d`."""
    body = "".join(more) or "y = Identity (d)"
    model = parse(
        f"agraph (float[N,64] x) => (float[N,64] y) {{ i = Identity (x) d = Neg (i) {body} }}"
    )
    model.graph.node[1].CopyFrom(
        helper.make_node("Times", ["i"], ["d"], "times", domain="test.custom")
    )
    model.opset_import.add(domain="test.custom", version=1)
    return model


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(times(), "model.onnx")
    return Path("model.onnx")


def test_only_inside_of_the_context(model: Path, doubling: Path) -> None:
    with custom_operators([doubling]):
        assert fault_of_loading(model) is None
        assert np.array_equal(Runner(model).run({"x": X})[0], 2 * X)
    assert "Times" in (fault_of_loading(model) or "")


def test_a_conversion_is_verified_with_them(model: Path, doubling: Path) -> None:
    report = fusionc.convert(model, custom_op_library=[doubling])
    assert report.effected and report.verification == "equal in 7 runs"
    without = fusionc.convert(model).verification or ""
    assert without.startswith("not verified: onnxruntime cannot load")
    assert without.endswith(
        "; if the operator is your own, --custom_op_library takes the library that has it"
    )


def test_an_operator_may_be_in_a_second_library(
    model: Path, doubling: Path, tmp_path: Path
) -> None:
    other = compile_to_other_domain(tmp_path / "libother.so")
    both = times("y = Neg (d)")
    both.graph.node[2].CopyFrom(
        helper.make_node("Times", ["d"], ["y"], "again", domain="test.others")
    )
    both.opset_import.add(domain="test.others", version=1)
    onnx.save(both, model)
    with custom_operators([doubling, other]):
        assert np.array_equal(Runner(model).run({"x": X})[0], 6 * X)


def compile_to_other_domain(path: Path) -> Path:
    text = TIMES.replace("test.custom", "test.others")
    compile_units(
        compiler(), ["-fPIC", "-DFACTOR=3", "-DREGISTER=RegisterCustomOps"], [Unit(text)], path
    )
    return path


def test_every_way_of_running_the_reference_has_them(
    model: Path, doubling: Path, tmp_path: Path
) -> None:
    """A difference within rounding is judged with the weights of the reference moved."""
    text = "up = Add (d, plus) y = Sub (up, minus)"
    reference = times(text)
    reference.graph.initializer.extend(
        numpy_helper.from_array(np.float32([24691.4]), name) for name in ("plus", "minus")
    )
    onnx.save(reference, model)
    onnx.save(times(), "other.onnx")
    words = ["verify", "model.onnx", "other.onnx", "--custom_op_library", str(doubling)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0 and "the reference itself amplifies" in result.output, (
        result.output
    )


def test_a_wrong_result_is_seen(model: Path, doubling: Path) -> None:
    onnx.save(times("y = Neg (d)"), "other.onnx")
    result = CliRunner().invoke(
        main, ["verify", "model.onnx", "other.onnx", "--custom_op_library", str(doubling)]
    )
    assert result.exit_code == 3, result.output


@pytest.mark.parametrize(
    ("make", "what", "hint"),
    [
        (lambda at: at / "no.so", "the library of custom operators does not exist", "give the path"),
        (lambda at: at, "the library of custom operators is not a file", "give the path"),
        (lambda at: text_file(at / "text.so"), "onnxruntime cannot load the library of custom operators: ", "build the library"),
        (lambda at: library(at / "unnamed.so", register="Other"), "RegisterCustomOps", "build the library for this machine"),
        (lambda at: library(at / "aborts.so", 0), "it ends the process (SIGABRT", "build the library for this machine"),
    ],
    ids=["missing", "a folder", "text", "no such function", "crash"],
)  # fmt: skip
def test_a_library_that_does_not_work(
    model: Path,
    tmp_path: Path,
    needs_a_compiler: None,
    make: Callable[[Path], Path],
    what: str,
    hint: str,
) -> None:
    path = make(tmp_path)
    for call in (
        lambda: require_loadable([path]),
        lambda: fusionc.convert(model, output="out.onnx", custom_op_library=[path]),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert (
            what in caught.value.what
            and caught.value.where == str(path)
            and caught.value.hint.startswith(hint)
        )
    assert not Path("out.onnx").exists()


def test_a_search_for_the_rewrite_at_fault_has_them(model: Path, doubling: Path) -> None:
    words = ["bisect", "--model", "model.onnx"]
    without = CliRunner().invoke(main, words)
    assert without.exit_code == 1, without.output
    found = CliRunner().invoke(main, [*words, "--custom_op_library", str(doubling)])
    assert found.exit_code == 0 and "equal in 7 runs" in found.output, found.output


def text_file(path: Path) -> Path:
    path.write_text("no library")
    return path


def test_the_command_of_the_documentation(model: Path, doubling: Path) -> None:
    Path("libcustom.so").symlink_to(doubling)
    (command,) = re.findall(
        "^fusionc (.*--custom_op_library.*)$",
        (ROOT / "docs/verification.md").read_text(),
        re.MULTILINE,
    )
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 0 and "equal in 7 runs" in result.output, result.output
