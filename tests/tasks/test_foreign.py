"""A user's own task code: whatever it raises, or gives, is one line that says where."""

import numpy as np
import pytest

from tests.looped import Letters
from trajdiag.errors import ConfigError
from trajdiag.extraction.examples import examples_in_store_order
from trajdiag.tasks.foreign import facts, require_classes


class Raises(Letters):
    def examples(self):
        raise RuntimeError("boom")

    def parameters(self):
        raise SystemExit(3)

    def notes(self):
        return {"seen": np.float32(1)}


def test_what_the_tasks_code_raises_names_the_method_and_the_line():
    with pytest.raises(ConfigError, match=r"examples\(\) of task letters failed: .*boom.*\.py:1"):
        examples_in_store_order(Raises())
    with pytest.raises(ConfigError, match=r"parameters\(\) of task letters failed: SystemExit"):
        facts(Raises(), "parameters")


def test_facts_must_be_json():
    with pytest.raises(ConfigError, match=r"notes\(\) of task letters must give a dict of JSON"):
        facts(Raises(), "notes")
    assert facts(Letters(), "parameters") == Letters().parameters()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"class_ids": [0, 1]}, "class_ids must be an integer array"),
        ({"class_ids": np.array([0, 11])}, "different tokens below 11"),
        ({"class_ids": np.array([2, 2])}, "different tokens below 11"),
        ({"vocab_size": "11"}, "vocab_size must be an integer"),
    ],
)
def test_classes_that_make_no_sense_are_refused(change, said):
    with pytest.raises(ConfigError, match=said):
        require_classes(Letters(**change))
