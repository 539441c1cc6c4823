"""`fusionc bench` as a story: models → inputs → rounds in fresh processes → the cost of each, and
ratios to the first.
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
_STEPS = (
    3  # seconds of a profile in addition to its own: a session, the first runs and the last ones
)


@dataclass(frozen=True)
class BenchRequest:
    """What is to be measured."""

    models: Sequence[Path]
    inputs: Path | None = None
    input_shape: Mapping[str, tuple[int, ...]] | None = None
    seconds: float = 1.0  # for each model in each process
    processes: int = 5  # number of fresh processes
    confidence: float = 0.95  # of the intervals of ratios
    # for throughput, which is measured if there are batch sizes or threads
    batch_sizes: Sequence[int] = ()
    threads: Sequence[int] = ()  # for throughput
    trust_kernels: bool = False
    progress: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class ModelCost:
    """The cost of a model."""

    name: str
    seconds: dict[float, float]  # of a run, by percentile
    load_seconds: float
    imported: int  # bytes that the process held at most before the model was loaded
    loaded: int  # bytes after loading
    peak: int  # bytes at the end
    ratio: RatioInterval | None  # of run times to the first model; None for the first
    operators: Profile


@dataclass(frozen=True)
class Throughput:
    """Samples in a second of a model."""

    name: str
    batch: int  # samples in a batch
    threads: int  # 0: onnxruntime's choice
    samples_per_second: float


@dataclass
class Bench:
    """The measurements."""

    label: str  # what the inputs are
    costs: list[ModelCost] = field(default_factory=list)
    throughput: list[Throughput] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data: seconds, bytes, ratios."""
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
def bench(asked: BenchRequest, measure: Round = measure_round) -> Bench:
    """Measure the models on the same inputs. `measure` performs a round.

    Raises UsageError if models take other inputs than the first, FusioncError if onnxruntime cannot
    run one.
    """
    asked.progress("looking for inputs")
    models, feeds, found = _prepared(asked)
    names = list(models)
    try:
        rounds = _rounds(asked, models, feeds, measure, "")
        for name in names:
            own = [one[name] for one in rounds]
            ratio = None
            if name != names[0]:
                logs = [log_ratio(one[name].slices, one[names[0]].slices) for one in rounds]
                ratio = interval_of(logs, asked.confidence)
            asked.progress(f"operators of {name}")
            found.costs.append(
                _cost(name, own, ratio, _operators(models[name], feeds[name], asked.seconds))
            )
        if asked.batch_sizes or asked.threads:
            found.throughput = _throughput(asked, models, feeds, measure)
    except RunError as error:
        hint = (
            "fusionc verify says more of a model that cannot be run; a longer --timeout helps if "
            "one takes long"
        )
        raise FusioncError(
            f"onnxruntime cannot run a model: {error}", where=", ".join(names), hint=hint
        ) from error
    return found


def _prepared(
    asked: BenchRequest,
) -> tuple[dict[str, DeployedModel], dict[str, dict[str, Any]], Bench]:
    """The models by distinct names, and what each is fed."""
    named = dict(zip(_names(asked.models), asked.models, strict=True))
    opened = {name: deployed(path, asked.trust_kernels) for name, path in named.items()}
    protos = [load(path) for path in asked.models]
    sample = _sample(asked)
    feeds = {
        name: _feeds(proto, sample.feeds, path, asked.models[0])
        for name, proto, path in zip(opened, protos, asked.models, strict=True)
    }
    if asked.batch_sizes:  # before anything is measured, to see whether there is a batch to change
        for name, (model, _) in opened.items():
            resize_batch(model.file, feeds[name], asked.batch_sizes[0])
    models = {name: model for name, (model, _) in opened.items()}
    notices = [notice for _, told in opened.values() for notice in told]
    return models, feeds, Bench(sample.label, notices=notices)


def _sample(asked: BenchRequest) -> Sample:
    """Inputs on which the first model runs. Raises FusioncError if there are none."""
    first = asked.models[0]
    try:
        return first_sample(first, asked.input_shape, asked.inputs)
    except RunError as error:
        what = f"there are no inputs on which the model runs: {error}"
        hint = "give values with --inputs, or sizes with --input_shape"
        if (fault := fault_of_loading(first)) is not None:
            what = f"onnxruntime cannot load the model: {fault}"
            hint = (
                "fusionc convert --mode 3 says what is not valid; --custom_op_library takes "
                "operators of your own"
            )
        raise FusioncError(what, where=str(first), hint=hint) from error


def _feeds(
    proto: onnx.ModelProto, values: Mapping[str, Any], path: Path, first: Path
) -> dict[str, Any]:
    """What a model takes of these values. Raises UsageError if it needs others."""
    required = [port for port in required_inputs(proto) if not port.optional]
    if unfit := [port for port in required if not _takes(port, values.get(port.name))]:
        name = unfit[0].name
        what = f"the model takes the input {name}, which {first.name} does not take, or not so"
        hint = "models that are compared run on the same inputs; measure others one at a time"
        raise UsageError(what, where=str(path), hint=hint, code="E10001")
    taken = {port.name for port in (*required, *overridable_inputs(proto))}
    return {name: value for name, value in values.items() if name in taken and value is not None}


def _takes(port: Port, value: Any) -> bool:
    """Whether an input accepts this value, as far as the model tells."""
    if value is None or port.kind != "tensor" or not isinstance(value, np.ndarray):
        return value is not None
    return port.takes(value.shape) and port.element_type == element_type(value.dtype)


def _names(models: Sequence[Path]) -> list[str]:
    """File names, or paths if those are ambiguous; a model that is given again has a number."""
    short = [path.name for path in models]
    names = short if len(set(short)) == len(short) else [str(path) for path in models]
    return [
        name if name not in names[:at] else f"{name} ({names[:at].count(name) + 1})"
        for at, name in enumerate(names)
    ]


def _rounds(
    asked: BenchRequest,
    models: Mapping[str, DeployedModel],
    feeds: Mapping[str, Mapping[str, Any]],
    measure: Round,
    what: str,
) -> list[dict[str, Measured]]:
    found = []
    for number in range(asked.processes):
        asked.progress(f"{what}round {number + 1} of {asked.processes}")
        found.append(measure(models, feeds, asked.seconds, number))
    return found


def _cost(
    name: str, own: Sequence[Measured], ratio: RatioInterval | None, operators: Profile
) -> ModelCost:
    runs = [run for one in own for run in one.runs]
    memory = [
        int(median(sizes))
        for sizes in zip(*((one.imported, one.loaded, one.peak) for one in own), strict=True)
    ]
    times = {part: percentile(runs, part) for part in PERCENTILES}
    imported, loaded, peak = memory
    load_seconds = median(one.load_seconds for one in own)
    return ModelCost(name, times, load_seconds, imported, loaded, peak, ratio, operators)


def _operators(model: DeployedModel, feeds: Mapping[str, Any], seconds: float) -> Profile:
    nodes = sum(1 for _ in nodes_of(onnx.load(model.file, load_external_data=False)))
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
    with step_limit(0 if limit is None else seconds + _STEPS * limit):
        return insist(lambda: profile(*arguments, most=None))


def _throughput(
    asked: BenchRequest,
    models: Mapping[str, DeployedModel],
    feeds: Mapping[str, Mapping[str, Any]],
    measure: Round,
) -> list[Throughput]:
    found = []
    for batch in asked.batch_sizes or (0,):
        sized = feeds
        count = batch
        if batch:
            sized = {
                name: resize_batch(model.file, feeds[name], batch) for name, model in models.items()
            }
        else:
            name, model = next(iter(models.items()))
            count = batch_of(model.file, feeds[name])
        for threads in asked.threads or (0,):
            set_up = {name: model.with_threads(threads) for name, model in models.items()}
            said = f"batch {count}, {threads or 'default'} threads, "
            rounds = _rounds(asked, set_up, sized, measure, said)
            for name in models:
                seconds = median(median(one[name].runs) for one in rounds)
                found.append(Throughput(name, count, threads, count / seconds))
    return found
