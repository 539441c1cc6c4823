from __future__ import annotations

import onnxruntime as ort
import pytest

from fusionc.runtime.optimizers import DISABLED
from fusionc.runtime.session_settings import SPINNING, SessionSettings, settings_of

ALL = SessionSettings(3, False, False, ("NchwcTransformer", "SkipLayerNormFusion"), False)


def test_they_reach_the_options() -> None:
    options = ort.SessionOptions()
    ALL.apply(options)
    assert (
        options.intra_op_num_threads == 3
        and not options.enable_cpu_mem_arena
        and not options.enable_mem_reuse
    )
    assert options.get_session_config_entry(SPINNING) == "0"
    assert options.get_session_config_entry(DISABLED) == "NchwcTransformer;SkipLayerNormFusion"


def test_what_somebody_has_set_stays() -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry(SPINNING, "1")
    options.add_session_config_entry(DISABLED, "GeluFusionL1;NchwcTransformer")
    ALL.apply(options)
    assert options.intra_op_num_threads == 1 and options.get_session_config_entry(SPINNING) == "1"
    assert (
        options.get_session_config_entry(DISABLED)
        == "GeluFusionL1;NchwcTransformer;SkipLayerNormFusion"
    )


def test_the_defaults_change_nothing() -> None:
    options = ort.SessionOptions()
    SessionSettings().apply(options)
    assert (
        options.intra_op_num_threads == 0
        and options.enable_cpu_mem_arena
        and options.enable_mem_reuse
    )
    with pytest.raises(RuntimeError):
        options.get_session_config_entry(SPINNING)


def test_as_plain_data_and_back() -> None:
    assert (
        settings_of(ALL.as_json()) == ALL
        and settings_of(SessionSettings().as_json()) == SessionSettings()
    )


@pytest.mark.parametrize(
    "change",
    [
        {"threads": -1},
        {"threads": "2"},
        {"spinning": 1},
        {"arena": None},
        {"planned_memory": "no"},
        {"disabled_optimizers": "X"},
    ],
)
def test_other_data_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        settings_of({**ALL.as_json(), **change})


def test_what_is_not_said_is_the_default() -> None:
    content = {"threads": 2, "spinning": False, "arena": True, "disabled_optimizers": []}
    assert settings_of(content) == SessionSettings(2, spinning=False)


def test_for_people() -> None:
    assert str(ALL) == (
        "3 threads; no spinning; no arena; no planned memory; without NchwcTransformer, "
        "SkipLayerNormFusion"
    )
    assert str(SessionSettings()) == "onnxruntime's defaults"
