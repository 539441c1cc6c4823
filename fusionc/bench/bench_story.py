"""`fusionc bench` from start to finish: models → inputs → rounds in fresh processes → the cost of
each model, and the ratio of its time to that of the first model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx

from fusionc.bench.deployed_model import DeployedModel, deployed
from fusionc.bench.intervals import RatioInterval, interval_of, log_ratio, percentile
from fusionc.bench.larger_batch import batch_of, resize_batch
from fusionc.bench.rounds import Measured, measure_round
from fusionc.disk.load import load
from fusionc.errors import FusioncError, UsageError
from fusionc.model.tensors import element_type
from fusionc.protos import nodes_of
from fusionc.report.area_labels import area_labels
from fusionc.runtime.process import insist, longest_step, step_limit
from fusionc.runtime.profile import Profile, profile
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import closes_runners, fault_of_loading
from fusionc.verify.first_sample import first_sample
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.interface import Port, overridable_inputs, required_inputs

Round = Callable[
    [Mapping[str, DeployedModel], Mapping[str, Mapping[str, Any]], float, int], dict[str, Measured]
]
PERCENTILES = (0.5, 0.9, 0.99)
# A profile has three steps in addition to its measured seconds: creating the session, the first
# runs and the last runs. Each may take as long as the limit of a step.
_PROFILE_STEPS = 3


@dataclass(frozen=True)
class BenchRequest:
    """The models to measure, and how to measure them."""

    models: Sequence[Path]
    inputs: Path | None = None
    input_shape: Mapping[str, tuple[int, ...]] | None = None
    seconds: float = 1.0  # the time to measure each model in each process
    processes: int = 5  # the number of fresh processes for each model
    confidence: float = 0.95  # of the intervals of ratios
    # throughput is measured if there are batch sizes or numbers of threads
    batch_sizes: Sequence[int] = ()
    threads: Sequence[int] = ()
    trust_kernels: bool = False  # whether kernels from another installation may be loaded
    progress: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class ModelCost:
    """The cost of a model."""

    name: str
    seconds: dict[float, float]  # the time of a run, by percentile
    load_seconds: float
    imported: int  # the peak memory in bytes before the model was loaded
    loaded: int  # the peak memory in bytes after loading
    peak: int  # the peak memory in bytes at the end
    ratio: RatioInterval | None  # run time / run time of the first model; None for the first model
    operators: Profile
    areas: Mapping[str, str]  # the label of each area by its name


@dataclass(frozen=True)
class Throughput:
    """The throughput of a model with one batch size and one number of threads."""

    name: str
    batch: int  # the number of samples in a batch
    threads: int  # 0 for onnxruntime's choice
    samples_per_second: float


@dataclass
class Bench:
    """The measurements."""

    label: str  # a description of the inputs
    costs: list[ModelCost] = field(default_factory=list)
    throughput: list[Throughput] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The measurements as plain data: seconds, bytes, ratios."""
        return {
            "inputs": self.label,
            "models": [
                {
                    **asdict(cost),
                    "seconds": {f"p{100 * part:g}": value for part, value in cost.seconds.items()},
                    "ratio": None if cost.ratio is None else cost.ratio.as_json(),
                }
                for cost in self.costs
            ],
            "throughput": [asdict(one) for one in self.throughput],
            "notices": self.notices,
        }


@closes_runners
def bench(request: BenchRequest, measure: Round = measure_round) -> Bench:
    """Measure the models on the same inputs. `measure` performs a round.

    Raises UsageError if a model takes other inputs than the first model, and FusioncError if
    onnxruntime cannot run a model.
    """
    request.progress("looking for inputs")
    models, feeds, result = _prepared(request)
    names = list(models)
    try:
        rounds = _rounds(request, models, feeds, measure, "")
        for name in names:
            own = [one[name] for one in rounds]
            ratio = None
            if name != names[0]:
                logs = [log_ratio(one[name].slices, one[names[0]].slices) for one in rounds]
                ratio = interval_of(logs, request.confidence)
            request.progress(f"operators of {name}")
            proto = onnx.load(models[name].file, load_external_data=False)
            operators = _operators(models[name], proto, feeds[name], request.seconds)
            result.costs.append(_cost(name, own, ratio, operators, area_labels(proto)))
        if request.batch_sizes or request.threads:
            result.throughput = _throughput(request, models, feeds, measure)
    except RunError as error:
        hint = (
            "fusionc verify says more about a model that cannot be run; a longer --timeout helps "
            "with a slow model"
        )
        raise FusioncError(
            f"onnxruntime cannot run a model: {error}", where=", ".join(names), hint=hint
        ) from error
    return result


def _prepared(
    request: BenchRequest,
) -> tuple[dict[str, DeployedModel], dict[str, dict[str, Any]], Bench]:
    """The models and their feeds by distinct names, and a result without measurements."""
    named = dict(zip(_names(request.models), request.models, strict=True))
    opened = {name: deployed(path, request.trust_kernels) for name, path in named.items()}
    protos = [load(path) for path in request.models]
    sample = _sample(request)
    feeds = {
        name: _feeds(proto, sample.feeds, path, request.models[0])
        for name, proto, path in zip(opened, protos, request.models, strict=True)
    }
    if request.batch_sizes:  # raises before the measurement if a model has no variable batch size
        for name, (model, _) in opened.items():
            resize_batch(model.file, feeds[name], request.batch_sizes[0])
    models = {name: model for name, (model, _) in opened.items()}
    notices = [notice for _, its_notices in opened.values() for notice in its_notices]
    return models, feeds, Bench(sample.label, notices=notices)


def _sample(request: BenchRequest) -> Sample:
    """Inputs on which the first model runs. Raises FusioncError if there are none."""
    first = request.models[0]
    try:
        return first_sample(first, request.input_shape, request.inputs)
    except RunError as error:
        what = f"there are no inputs on which the model runs: {error}"
        hint = "give values with --inputs, or sizes with --input_shape"
        if (fault := fault_of_loading(first)) is not None:
            what = f"onnxruntime cannot load the model: {fault}"
            hint = (
                "fusionc convert --mode 3 says what is not valid; --custom_op_library loads your "
                "own operators"
            )
        raise FusioncError(what, where=str(first), hint=hint) from error


def _feeds(
    proto: onnx.ModelProto, values: Mapping[str, Any], path: Path, first: Path
) -> dict[str, Any]:
    """The values for the inputs of a model. Raises UsageError if `values` lacks an input that the
    model needs, or has a value of another type or shape for this input.
    """
    required = [port for port in required_inputs(proto) if not port.optional]
    if unfit := [port for port in required if not _accepts(port, values.get(port.name))]:
        name = unfit[0].name
        what = f"{first.name} does not take the input {name} with the same type and shape"
        hint = "compared models run on the same inputs; measure other models one at a time"
        raise UsageError(what, where=str(path), hint=hint, code="E10001")
    taken = {port.name for port in (*required, *overridable_inputs(proto))}
    return {name: value for name, value in values.items() if name in taken and value is not None}


def _accepts(port: Port, value: Any) -> bool:
    """Whether an input accepts this value, according to the declared type and shape."""
    if value is None or port.kind != "tensor" or not isinstance(value, np.ndarray):
        return value is not None
    return port.takes(value.shape) and port.element_type == element_type(value.dtype)


def _names(models: Sequence[Path]) -> list[str]:
    """The file names, or the paths if file names are ambiguous. If a model is given several times,
    its further names get a number.
    """
    short = [path.name for path in models]
    names = short if len(set(short)) == len(short) else [str(path) for path in models]
    return [
        name if name not in names[:at] else f"{name} ({names[:at].count(name) + 1})"
        for at, name in enumerate(names)
    ]


def _rounds(
    request: BenchRequest,
    models: Mapping[str, DeployedModel],
    feeds: Mapping[str, Mapping[str, Any]],
    measure: Round,
    what: str,
) -> list[dict[str, Measured]]:
    rounds = []
    for number in range(request.processes):
        request.progress(f"{what}round {number + 1} of {request.processes}")
        rounds.append(measure(models, feeds, request.seconds, number))
    return rounds


def _cost(
    name: str,
    own: Sequence[Measured],
    ratio: RatioInterval | None,
    operators: Profile,
    areas: Mapping[str, str],
) -> ModelCost:
    runs = [run for one in own for run in one.runs]
    memory = [
        int(median(sizes))
        for sizes in zip(*((one.imported, one.loaded, one.peak) for one in own), strict=True)
    ]
    times = {part: percentile(runs, part) for part in PERCENTILES}
    imported, loaded, peak = memory
    load_seconds = median(one.load_seconds for one in own)
    return ModelCost(name, times, load_seconds, imported, loaded, peak, ratio, operators, areas)


def _operators(
    model: DeployedModel, proto: onnx.ModelProto, feeds: Mapping[str, Any], seconds: float
) -> Profile:
    nodes = sum(1 for _ in nodes_of(proto))
    arguments = (
        model.file,
        feeds,
        nodes,
        model.kernels,
        model.settings,
        model.is_optimized,
        seconds,
    )
    limit = longest_step()
    with step_limit(0 if limit is None else seconds + _PROFILE_STEPS * limit):
        return insist(lambda: profile(*arguments, most=None))


def _throughput(
    request: BenchRequest,
    models: Mapping[str, DeployedModel],
    feeds: Mapping[str, Mapping[str, Any]],
    measure: Round,
) -> list[Throughput]:
    results = []
    for batch in request.batch_sizes or (0,):
        sized = feeds
        count = batch
        if batch:
            sized = {
                name: resize_batch(model.file, feeds[name], batch) for name, model in models.items()
            }
        else:
            name, model = next(iter(models.items()))
            count = batch_of(model.file, feeds[name])
        for threads in request.threads or (0,):
            threaded = {name: model.with_threads(threads) for name, model in models.items()}
            prefix = f"batch {count}, {threads or 'default'} threads, "
            rounds = _rounds(request, threaded, sized, measure, prefix)
            for name in models:
                seconds = median(median(one[name].runs) for one in rounds)
                results.append(Throughput(name, count, threads, count / seconds))
    return results
