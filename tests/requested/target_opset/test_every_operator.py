"""Every operator that has changed since opset 7, raised from each of its versions: the same numbers, or one clear
refusal. With the environment variable FUSIONC_ALL_VARIATIONS it is raised from every opset: `make variations`.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import pytest
from harness import ALL_VARIATIONS, all_nodes, assert_same_numbers, parse
from onnx import ModelProto
from opset_models import RANDOM_OR_OPTIONAL, REFUSED, Model, models

from fusionc.errors import FusioncError, UsageError
from fusionc.requested.target_opset import newest_opset, raise_opset

MODELS = list(models())


def named(model: ModelProto) -> ModelProto:
    for number, node in enumerate(all_nodes(model)):
        node.name = f"{number} {node.op_type}"
    return model


def versions(model: ModelProto) -> tuple[int, ...]:
    """Of every node the opset since which its operator is what it is."""
    opset = model.opset_import[0].version
    return tuple(
        onnx.defs.get_schema(node.op_type, opset).since_version for node in all_nodes(model)
    )


def raised(model: ModelProto, version: int) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return raise_opset(copy, version)


def by_opset(text: str, first: int, last: int) -> Iterator[tuple[int, ModelProto]]:
    """The model at the first opset of each of its versions, or at every opset."""
    known = set()
    for opset in range(first, last + 1):
        model = named(parse(f"agraph {text}", opset))
        if ALL_VARIATIONS or versions(model) not in known:
            known.add(versions(model))
            yield opset, model


@pytest.mark.parametrize("model", MODELS, ids=[name for name, *_ in MODELS])
def test_raised_from_every_version(model: Model) -> None:
    name, text, first, last = model
    reason, target = REFUSED.get(name, ("", newest_opset()))
    seen = set()
    for opset, original in by_opset(text, first, min(last, target)):
        if opset > target:
            break
        if reason:
            with pytest.raises(FusioncError, match=reason):
                raised(original, newest_opset())
        try:
            result = raised(original, target)
        except (
            UsageError
        ) as error:  # onnxruntime may know a newer opset before it has all of its kernels
            assert (
                f"onnxruntime has no kernel for {name.partition(',')[0]} of opset {target}"
                == error.what
            )
            assert error.hint == f"give at most {target - 1}"
            target -= 1
            result = raised(original, target)
        case = (versions(original), result.SerializeToString(deterministic=True))
        if case in seen:  # the operators of this opset are those of the one before
            continue
        seen.add(case)
        onnx.checker.check_model(result, full_check=True)
        names = [node.name for node in result.graph.node if node.name]
        assert len(set(names)) == len(names)
        assert_same_numbers(original, result, "rounding", {}, seeds=1)


def test_no_operator_is_missing() -> None:
    """Of which there is an older version, and a newer one that is not older than opset 8."""
    there = {
        node.op_type
        for _, text, first, _ in MODELS
        for node in all_nodes(parse(f"agraph {text}", first))
    }
    first: dict[str, int] = {}
    changed = set()
    for schema in sorted(
        onnx.defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version
    ):
        is_standard = schema.domain == "" and schema.since_version <= newest_opset()
        if (
            is_standard
            and first.setdefault(schema.name, schema.since_version) < schema.since_version > 7
        ):
            changed.add(schema.name)
    assert changed - there <= set(RANDOM_OR_OPTIONAL)
