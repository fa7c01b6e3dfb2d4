"""A million examples are scored, and gates are fitted on them, within 4 GiB."""

import pytest

from tests.million import cost_of, make

EXAMPLES, GIB = 1_000_000, 4.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    root = tmp_path_factory.mktemp("million")
    make(root, EXAMPLES)
    return root


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("score",),
        ("score", "--memory", "0.25"),
        ("fit-gate", "--kind", "linear"),
        ("fit-gate", "--kind", "mlp"),
    ],
    ids=" ".join,
)
def test_a_million_examples_fit_into_4_gib(cache, command):
    store = f"made-{EXAMPLES}"
    assert cost_of(cache, command[0], store, *command[1:]).gib <= GIB
