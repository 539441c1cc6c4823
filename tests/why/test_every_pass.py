"""Of every pass: what matches is never explained as a miss, and what does not match has a
reason.
"""

from __future__ import annotations

import pytest
from harness import Fires, Stays, load_tests_of, parse
from laws import for_each

from fusionc.model.graph import Node
from fusionc.passes import PASSES
from fusionc.passes.quantization import inference_qbmm_add_fusion
from fusionc.rewrite import Pass, Pattern, matcher
from fusionc.rewrite.pipeline import anchors_of
from fusionc.shapes.inference import typed_model
from fusionc.why.first_reason import first_reason
from fusionc.why.nearest import reasons_of
from fusionc.why.pass_answer import answer_of
from fusionc.why.pass_places import places_of
from fusionc.why.trace import trace
from fusionc.why.watched_conversion import Converted

_EACH = 2  # cases of a table: the first ones
_NO_REASON = "reports no candidate"


def _cases(pass_: Pass, each: int | None = _EACH) -> list[Fires | Stays]:
    loaded = load_tests_of(pass_)
    return [case for name in ("FIRES", "STAYS") for case in getattr(loaded, name, [])[:each]]


@for_each([p for p in PASSES if any(q.formulas for q in p.patterns)], name=lambda p: p.name)
def test_the_explanation_agrees_with_the_matcher(pass_: Pass) -> None:
    for case in _cases(pass_):
        model = typed_model(parse(case.graph, case.opset, case.ir_version), ".", case.target)
        for pattern in (pattern for pattern in pass_.patterns if pattern.formulas):
            for anchor in (node for graph in model.graphs for node in anchors_of(pattern, graph)):
                assert_agreement(pattern, anchor, case.name)
        places = list(places_of(model, pass_))
        assert all(reason.text for reason in reasons_of(places))
        if isinstance(case, Fires) and case.effected:
            assert "" in [place.reason for place in places], (
                f"{case.name}: no place would take effect"
            )


def assert_agreement(pattern: Pattern, anchor: Node, name: str) -> None:
    furthest = trace(pattern.formulas, anchor)
    is_there = matcher.match(pattern.formulas, anchor, {}) is not None
    assert is_there == (not furthest.misfits), f"{name}: {pattern.name} at {anchor}"
    assert is_there or ": " in first_reason(furthest, anchor)


@for_each(PASSES, name=lambda p: p.name)
def test_a_refused_rewrite_is_never_promised(pass_: Pass) -> None:
    """Whatever check of the engine refuses a match, `why` says so."""
    with pytest.MonkeyPatch.context() as patch:
        # the cases of this pass are for a processor without VNNI, as in its own test
        patch.setattr(inference_qbmm_add_fusion, "has_vnni", lambda: False)
        for case in _cases(pass_, each=None):
            if isinstance(case, Stays):
                model = typed_model(
                    parse(case.graph, case.opset, case.ir_version), ".", case.target
                )
                promised = [place for place in places_of(model, pass_) if not place.reason]
                assert not promised, f"{case.name}: {promised}"


@for_each(PASSES, name=lambda p: p.name)
def test_what_stays_has_a_reason(pass_: Pass) -> None:
    """A place with the first condition that does not hold, or a note that the model has none of
    the operators at which the patterns begin.
    """
    for case in _cases(pass_, each=None):
        if isinstance(case, Stays):
            model = typed_model(parse(case.graph, case.opset, case.ir_version), ".", case.target)
            answer = answer_of(pass_, Converted(model, model, (), {}), "on", None)
            assert answer.reasons or answer.notes, case.name
            assert _NO_REASON not in "".join(answer.notes), case.name
            assert all(": " in reason.text for reason in answer.reasons), case.name


def test_every_condition_says_what_it_asks_for() -> None:
    for pass_ in PASSES:
        for condition in (one for pattern in pass_.patterns for one in pattern.conditions):
            assert (condition.__doc__ or "").startswith("Whether "), f"{pass_.name}: {condition}"
