"""What a user is told of a name that nothing bears."""

import pickle

import pytest

from trajdiag.errors import UnknownNameError


@pytest.mark.parametrize(
    ("name", "existing", "meant"),
    [
        ("ouro-14b", ["ouro-1.4b", "ouro-2.6b"], "ouro-1.4b"),
        ("entropi", ["entropy", "fixed"], "entropy"),
        ("sum_of_two", ["sums_of_two"], "sums_of_two"),
        ("rate", ["gate", "lr"], None),
        ("mean", ["mano", "parity"], None),
        ("fast", [], None),
    ],
)
def test_only_what_is_nearly_spelled_so_is_suggested(name, existing, meant):
    listed = ", ".join(existing) or "none"
    middle = f", did you mean {meant}?" if meant else ";"
    error = UnknownNameError("thing", name, reversed(existing), "A hint")
    assert str(error) == f"unknown thing {name!r}{middle} existing: {listed}. A hint"


def test_a_name_that_is_no_text_is_unknown_too():
    assert str(UnknownNameError("gate", 3, ["a"])) == "unknown gate 3; existing: a"


@pytest.mark.parametrize(
    "name", ["x" * 5000, ["a"] * 5000, 10**5000], ids=["text", "list", "digits"]
)
def test_a_long_name_is_cut(name):
    assert len(str(UnknownNameError("gate", name, ["a"]))) < 150


def test_a_worker_can_tell_another_process_what_it_raised():
    error = UnknownNameError("gate", "mlq", ["mlp"], "A hint")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
