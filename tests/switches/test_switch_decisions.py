"""Which passes run, and what the user is told about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fusionc.rewrite.definition import Pass
from fusionc.switches import Switches, decide

MUST = {"PrunePass", "AABiasaddConvFusion"}
DEFAULT = MUST | {
    "SoftmaxSmallOpFusionPass",
    "MatMulBiasAddFusionPass",
    "TbeConvElemwiseFusionPass",
}
KEPT = '"off" is ignored, because a switch file cannot switch these passes off: '
OFF_TOO = (
    "every other pass is off, so these are off, too, and the model is written unchanged: "
    "PrunePass, AABiasaddConvFusion"
)


def write(
    folder: Path, graph: dict[str, str] | None = None, ub: dict[str, str] | None = None
) -> Path:
    sections = {
        name: switches
        for name, switches in (("GraphFusion", graph), ("UBFusion", ub))
        if switches is not None
    }
    file = folder / "cfg.json"
    file.write_text(json.dumps({"Switch": sections}))
    return file


def test_without_a_switch_the_registry_decides(registry: Sequence[Pass]) -> None:
    assert decide(registry) == Switches(frozenset(DEFAULT), ())


@pytest.mark.parametrize(
    "text", ["{}", '{"Switch": {}}', '{"Switch": {"UBFusion": {}}}', "\ufeff {} "]
)
def test_missing_parts_of_a_file_are_fine(
    registry: Sequence[Pass], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "any name at all"
    file.write_text(text)
    assert decide(registry, switch_file=file) == decide(registry)


@pytest.mark.parametrize(
    ("graph", "ub", "expected"),
    [
        ({"MatMulBiasAddFusionPass": "off"}, None, DEFAULT - {"MatMulBiasAddFusionPass"}),
        ({"SubFusionPass": "on"}, None, DEFAULT | {"SubFusionPass"}),
        (
            {"ALL": "off", "SubFusionPass": "on"},
            None,
            MUST | {"SubFusionPass", "TbeConvElemwiseFusionPass"},
        ),
        (
            {"SubFusionPass": "on", "ALL": "off"},
            None,
            MUST | {"SubFusionPass", "TbeConvElemwiseFusionPass"},
        ),
        (
            {"ALL": "on", "MatMulBiasAddFusionPass": "off"},
            None,
            DEFAULT - {"MatMulBiasAddFusionPass"},
        ),
        (None, {"ALL": "off"}, DEFAULT - {"TbeConvElemwiseFusionPass"}),
        (
            {"ALL": "off"},
            {"ALL": "off", "TbeConvElemwiseFusionPass": "on"},
            MUST | {"TbeConvElemwiseFusionPass"},
        ),
    ],
)
def test_own_entry_beats_all_beats_default(
    registry: Sequence[Pass],
    tmp_path: Path,
    graph: dict[str, str] | None,
    ub: dict[str, str] | None,
    expected: set[str],
) -> None:
    assert decide(registry, switch_file=write(tmp_path, graph, ub)).enabled == expected


def test_all_on_does_not_switch_on_what_is_off_by_default(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    switches = decide(
        registry,
        switch_file=write(tmp_path, {"ALL": "on"}, {"ALL": "on", "FastGeluFusionPass": "on"}),
    )
    assert switches.enabled == DEFAULT | {"FastGeluFusionPass"}
    assert switches.notices == (
        '"ALL": "on" does not switch on passes that are off by default (1); switch them on by name; '
        '"fusionc passes" lists them',
    )


@pytest.mark.parametrize("name", ["SoftmaxFusionPass", "softmax", "SoftmaxSmallOpFusionPass"])
def test_an_alias_is_the_pass(registry: Sequence[Pass], tmp_path: Path, name: str) -> None:
    without = DEFAULT - {"SoftmaxSmallOpFusionPass"}
    assert decide(registry, switch_file=write(tmp_path, {name: "off"})) == Switches(
        frozenset(without), ()
    )
    assert decide(registry, optimization_switch=f"{name}:off") == Switches(frozenset(without), ())


def test_an_alias_and_its_name_may_agree(registry: Sequence[Pass], tmp_path: Path) -> None:
    file = write(tmp_path, {"SoftmaxFusionPass": "off", "SoftmaxSmallOpFusionPass": "off"})
    assert decide(registry, switch_file=file).enabled == DEFAULT - {"SoftmaxSmallOpFusionPass"}


def test_of_two_names_of_one_pass_off_counts(registry: Sequence[Pass], tmp_path: Path) -> None:
    """In CANN they are two passes, and a file may have both: what one is off for must not
    happen.
    """
    for first, second in (("on", "off"), ("off", "on")):
        file = write(tmp_path, {"SoftmaxFusionPass": first, "SoftmaxSmallOpFusionPass": second})
        option = f"SoftmaxFusionPass:{first};SoftmaxSmallOpFusionPass:{second}"
        for switches in (
            decide(registry, switch_file=file),
            decide(registry, optimization_switch=option),
        ):
            assert switches.enabled == DEFAULT - {"SoftmaxSmallOpFusionPass"}
            (notice,) = switches.notices
            assert (
                '"SoftmaxSmallOpFusionPass"' in notice
                and '"SoftmaxFusionPass"' in notice
                and '"off"' in notice
            )


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_name_for_several_passes_and_one_for_fewer_the_latter_counts(
    make_pass: Callable[..., Pass], tmp_path: Path, order: int
) -> None:
    passes = [
        make_pass("FirstPass", aliases=("both",)),
        make_pass("SecondPass", kind="UBFusion", aliases=("both",)),
    ]
    entries = dict([("both", "off"), ("SecondPass", "on")][::order])
    assert decide(passes, switch_file=write(tmp_path, {"both": "off"})) == Switches(frozenset(), ())
    assert decide(passes, optimization_switch="both:off") == Switches(frozenset(), ())
    assert decide(passes, switch_file=write(tmp_path, entries)).enabled == {"SecondPass"}
    option = ";".join(f"{name}:{value}" for name, value in entries.items())
    assert decide(passes, optimization_switch=option) == Switches(frozenset({"SecondPass"}), ())


def test_the_other_section_is_accepted_and_its_all_is_not_used(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    switches = decide(
        registry,
        switch_file=write(tmp_path, {"ALL": "off", "TbeConv2DReluv2Pass": "on"}, {"ALL": "off"}),
    )
    assert switches.enabled == MUST | {"TbeConvElemwiseFusionPass"}
    assert switches.notices == (
        "accepted, although they belong to the other section: TbeConv2DReluv2Pass (UBFusion)",
    )


def test_a_pass_that_must_stay_on_stays_on(registry: Sequence[Pass], tmp_path: Path) -> None:
    switches = decide(registry, switch_file=write(tmp_path, {"PrunePass": "off"}))
    assert switches == Switches(frozenset(DEFAULT), (KEPT + "PrunePass",))


def test_all_off_leaves_nothing_on(registry: Sequence[Pass], tmp_path: Path) -> None:
    switches = decide(registry, switch_file=write(tmp_path, {"ALL": "off"}, {"ALL": "off"}))
    assert switches == Switches(frozenset(), (OFF_TOO,))


def test_every_other_pass_off_by_name_leaves_nothing_on(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    graph = {"SoftmaxFusionPass": "off", "MatMulBiasAddFusionPass": "off"}
    switches = decide(
        registry, switch_file=write(tmp_path, graph, {"TbeConvElemwiseFusionPass": "off"})
    )
    assert switches == Switches(frozenset(), (OFF_TOO,))


def test_a_pass_that_must_stay_on_can_run_alone(registry: Sequence[Pass], tmp_path: Path) -> None:
    switches = decide(
        registry, switch_file=write(tmp_path, {"ALL": "off", "PrunePass": "on"}, {"ALL": "off"})
    )
    assert switches.enabled == {"PrunePass"}
    assert switches.notices == (
        "every other pass is off, so these are off, too: AABiasaddConvFusion",
    )


def test_passes_that_must_stay_on_stay_on_when_nobody_says_off(make_pass, tmp_path: Path) -> None:
    passes = [make_pass("PrunePass", default="must"), make_pass("SubFusionPass", default="off")]
    assert decide(passes).enabled == {"PrunePass"}
    assert decide(passes, switch_file=write(tmp_path, {"ALL": "on"})).enabled == {"PrunePass"}


def test_names_of_ascend_are_accepted_and_told_once(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    file = write(
        tmp_path,
        {"TfMergeSubFusionPass": "on", "ZConcatExt2FusionPass": "off"},
        {"AutomaticUbFusion": "on"},
    )
    switches = decide(
        registry,
        switch_file=file,
        optimization_switch="add_rms_norm_fusion:on;ZConcatExt2FusionPass:off",
    )
    assert switches.enabled == DEFAULT
    assert switches.notices == (
        "only for Ascend chips, no effect in fusionc: TfMergeSubFusionPass, ZConcatExt2FusionPass, "
        "AutomaticUbFusion, "
        "add_rms_norm_fusion",
    )


def test_a_name_of_ascend_that_the_registry_has_is_the_registrys(make_pass, tmp_path: Path) -> None:
    passes = [make_pass("Other"), make_pass("TfMergeSubFusionPass")]
    switches = decide(passes, switch_file=write(tmp_path, {"TfMergeSubFusionPass": "off"}))
    assert switches == Switches(frozenset({"Other"}), ())


def test_keys_that_only_cann_uses_are_told_once(registry: Sequence[Pass], tmp_path: Path) -> None:
    file = tmp_path / "cfg.json"
    file.write_text(
        '{"Priority": {"GraphFusion": {"X": 7}}, "Switch": {}, "ExceptionalPassOfO1Level": []}'
    )
    assert decide(registry, switch_file=file).notices == (
        f"no effect in fusionc, in {file}: Priority, ExceptionalPassOfO1Level",
    )


def test_the_old_text_form(registry: Sequence[Pass], tmp_path: Path) -> None:
    file = tmp_path / "fusion_switch.cfg"
    file.write_bytes(
        b"\xef\xbb\xbf\r\nMatMulBiasAddFusionPass:off\r\n\r\n  TbeConv2DReluv2Pass : off "
        b"\nSubFusionPass:on"
    )
    switches = decide(registry, switch_file=file)
    assert switches == Switches(frozenset(MUST | {"SoftmaxSmallOpFusionPass", "SubFusionPass"}), ())


def test_all_in_the_old_text_form_is_for_both_sections(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    file = tmp_path / "fusion_switch.cfg"
    file.write_text("ALL:off\nMatMulBiasAddFusionPass:on\n")
    assert decide(registry, switch_file=file).enabled == MUST | {"MatMulBiasAddFusionPass"}


def test_the_option_beats_the_file(registry: Sequence[Pass], tmp_path: Path) -> None:
    file = write(tmp_path, {"ALL": "off", "SubFusionPass": "on"}, {"ALL": "off"})
    switches = decide(
        registry, switch_file=file, optimization_switch=" softmax:on ; SubFusionPass:off; "
    )
    assert switches.enabled == MUST | {"SoftmaxSmallOpFusionPass"}


def test_the_option_switches_off_what_must_stay_on(registry: Sequence[Pass]) -> None:
    switches = decide(registry, optimization_switch="PrunePass:off")
    assert switches.enabled == DEFAULT - {"PrunePass"}
    assert switches.notices == (
        "off by --optimization_switch, although a switch file cannot switch them off: PrunePass",
    )


def test_forbidden_close_pass_is_all_that_must_stay_on(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    off = decide(registry, optimization_switch="forbidden_close_pass:off;PrunePass:on")
    assert off.enabled == DEFAULT - {"AABiasaddConvFusion"}
    file = write(tmp_path, {"ALL": "off"}, {"ALL": "off"})
    on = decide(registry, switch_file=file, optimization_switch="forbidden_close_pass:on")
    assert on == Switches(frozenset(MUST), ())


def test_pattern_fusion_beats_everything(
    registry: Sequence[Pass], make_pass: Callable[..., Pass]
) -> None:
    own = make_pass("OwnPass")
    own.is_pattern_fusion = True
    passes = (*registry, own)
    assert "OwnPass" in decide(passes).enabled
    found = decide(passes, optimization_switch="OwnPass:on", pattern_fusion_pass=False)
    assert found.enabled == decide(passes, optimization_switch="OwnPass:off").enabled
    assert found.notices == ("off by --pattern_fusion_pass: OwnPass",)
    assert (
        decide(passes, optimization_switch="OwnPass:off", pattern_fusion_pass=False).notices == ()
    )
