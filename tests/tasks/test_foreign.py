"""A user's own task code: whatever it raises, or gives, is one line that says where."""

import numpy as np
import pytest

from tests.looped import Letters
from trajdiag.errors import ConfigError
from trajdiag.extraction.examples import examples_in_store_order
from trajdiag.tasks.foreign import facts, require_classes, require_task


class Raises(Letters):
    def examples(self):
        raise RuntimeError("boom")

    def parameters(self):
        raise SystemExit(3)

    def notes(self):
        return {"seen": np.float32(1)}


def changed(**attributes):
    """A task that says something else of itself."""
    task = type("Changed", (Letters,), {})()
    for name, value in attributes.items():
        setattr(type(task), name, value)
        object.__setattr__(task, name, value)
    return task


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
        ({"vocab_size": True}, "vocab_size must be an integer"),
        ({"vocab_size": None}, "vocab_size must be an integer, not None"),
        ({"class_names": 4}, "class_names must be a tuple of 4 texts, or None, not 4"),
        ({"class_names": "abcd"}, "class_names must be a tuple of 4 texts, or None, not 'abcd'"),
        ({"class_names": ("a", "b", "c", None)}, "class_names must be a tuple of 4 texts"),
        ({"class_names": ("a", "b", "c")}, "class_names must be a tuple of 4 texts"),
        ({"name": None}, "task Changed: its name must be printable text, not None"),
        ({"name": 7}, "task Changed: its name must be printable text, not 7"),
    ],
)
def test_classes_that_make_no_sense_are_refused(change, said):
    with pytest.raises(ConfigError, match=said) as caught:
        require_classes(changed(**change))
    assert str(caught.value).isprintable()


def test_a_task_is_an_instance_with_all_that_a_task_has():
    assert require_task(task := Letters()) is task
    for odd, said in (
        (Letters, r"Letters is a class, not a task; give a task made of it: Letters\(\.\.\.\)"),
        (3, "int is not a task: it must have what"),
    ):
        with pytest.raises(ConfigError, match=said):
            require_task(odd)


@pytest.mark.parametrize("attribute", ["name", "class_ids", "class_names", "vocab_size"])
def test_a_property_that_raises_names_the_line(attribute):
    def boom(self):
        raise RuntimeError("boom")

    task = type("Broken", (Letters,), {})()
    # over the dataclass's own field
    setattr(type(task), attribute, property(boom))
    with pytest.raises(ConfigError, match=r"task Broken failed: .*boom \(test_foreign\.py:"):
        require_classes(task)
