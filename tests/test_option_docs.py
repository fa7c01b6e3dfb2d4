"""`help` and completion know the options of the functions for notebooks."""

import importlib
import inspect
from dataclasses import fields

import pytest

import trajdiag


@pytest.mark.parametrize("name", sorted(trajdiag._CONFIGS))
def test_every_option_is_in_the_signature_and_said(name: str):
    home, config = trajdiag._CONFIGS[name]
    options = fields(getattr(importlib.import_module(home), config))
    function = getattr(trajdiag, name)
    shown = inspect.signature(function).parameters
    assert {field.name for field in options} <= set(shown)
    assert not any(p.kind is p.VAR_KEYWORD for p in shown.values())
    said = inspect.getdoc(function)
    assert said is not None
    _, _, listed = said.partition("\n\nOptions:\n\n")
    lines = listed.splitlines()
    assert lines, "the options stand at the end"
    for option, meaning in zip(lines[::2], lines[1::2], strict=True):
        assert option in shown
        assert meaning.startswith("    ") and meaning.strip(), f"{option} is said to be nothing"


def test_defaults_are_the_configs_but_where_a_preset_has_its_own():
    score, train = (
        inspect.signature(f).parameters for f in (trajdiag.score, trajdiag.train_config)
    )
    assert score["slack"].default == 0.005
    assert train["steps"].default is ...


def test_functions_that_take_options_are_all_there():
    of_a_task = "make_task"
    for name in set(trajdiag.__all__) - {"__version__", of_a_task}:
        parameters = inspect.signature(getattr(trajdiag, name)).parameters.values()
        assert not any(p.kind is p.VAR_KEYWORD for p in parameters), name
