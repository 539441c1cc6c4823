"""Signature, command line and help of a conversion are what the table of options says."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields

import click
import pytest

from fusionc import api
from fusionc.cli.convert_command import command
from fusionc.options import OPTIONS, Options, options_of
from fusionc.options.command_words import words_of

# arguments that are not called as the field that holds them
ARGUMENTS = {"source": "model", "destination": "output"}
OF_COMMAND = {
    *("mode", "om", "json_file", "dump_mode", "check_report", "jobs", "resume", "scheduler"),
    *("enable", "disable", "report_json"),
}


def signature() -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(api.convert).parameters)


def test_the_signature_has_every_option_and_its_default() -> None:
    assert {option.name for option in OPTIONS.values()} == signature().keys()
    assert {name: option.name for name, option in OPTIONS.items() if option.name != name} == (
        ARGUMENTS
    )
    given = {name: p.default for name, p in signature().items() if name != "model"}
    assert options_of("in.onnx", **given) == options_of("in.onnx")


def test_the_default_of_a_field_is_that_of_its_argument() -> None:
    for name, option in OPTIONS.items():
        if name not in (*ARGUMENTS, "progress"):
            assert signature()[name].default == option.default


def test_the_types_of_fields_are_those_of_arguments_where_nothing_is_converted() -> None:
    annotations = {field.name: field.type for field in fields(Options)}
    converted = {
        *("source", "destination", "fusion_switch_file", "inputs", "dump_graph", "report"),
        *("keep_dtype", "insert_op_conf", "keep_nodes", "customize_dtypes", "modify_mixlist"),
        *("custom_passes", "custom_op_library", "runtime_level", "free_dim", "progress"),
    }
    for name in annotations.keys() - converted:
        assert annotations[name] == signature()[name].annotation


def test_every_argument_is_passed_on_by_its_name() -> None:
    """So that a reader can follow it from the front door to the file that uses it."""
    (call,) = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(api.convert)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "options_of"
    ]
    passed = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    assert not call.args and passed == {name: name for name in signature()}


def test_every_option_with_a_flag_is_one_of_the_command() -> None:
    shown = {
        parameter.name: parameter.opts[0]
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden and parameter.expose_value
    }
    expected = {option.name: option.flag for option in OPTIONS.values() if option.flag is not None}
    del expected["model"]  # the command takes several
    assert {k: v for k, v in shown.items() if k in expected} == expected
    assert shown.keys() - expected.keys() == OF_COMMAND | {"models", "jit_level"}


@pytest.mark.parametrize("name", [option.name for option in OPTIONS.values()])
def test_help_says_something_of_each_argument(name: str) -> None:
    assert f"\n{name} " in inspect.getdoc(api.convert)


def test_options_of_the_command_at_their_defaults_are_no_words() -> None:
    options = options_of("in.onnx", output="out.onnx", export_compile_stat=1, input_shape={})
    assert words_of(options) == ["--model", "in.onnx", "--output", "out.onnx"]


@pytest.mark.parametrize("name", ["source", "destination", "target_version"])
def test_an_unknown_argument_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=f"convert has no argument {name}"):
        options_of("in.onnx", **{name: "x"})
