"""A task's examples are checked before the model runs: what does not fit is named."""

import dataclasses

import numpy as np
import pytest

from tests.looped import Letters
from trajdiag.errors import ConfigError
from trajdiag.extraction.examples import example_work
from trajdiag.tasks.base import Examples


class Changed(Letters):
    """Letters whose test examples are changed by `change`."""

    change: dict[str, object]

    def examples(self) -> dict[str, Examples]:
        splits = super().examples()
        return {**splits, "test": dataclasses.replace(splits["test"], **self.change)}


def changed(**change: object) -> Changed:
    task = Changed()
    object.__setattr__(task, "change", change)
    return task


COUNT = len(Letters().examples()["test"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": np.full(COUNT, 4)}, "target of example test-0000 is 4, not in 0..3"),
        ({"target": np.zeros(COUNT)}, "target cannot be of dtype float64"),
        ({"target": np.zeros(COUNT - 1, int)}, f"{COUNT} input_ids for {COUNT - 1} targets"),
        ({"length": np.zeros(COUNT, int)}, "length of example test-0000 is 0"),
        ({"difficulty": np.full(COUNT, np.nan)}, "difficulty of example test-0000 is nan"),
        ({"id": np.full(COUNT, "same")}, "id 'same' is given more than once"),
        ({"group": [0] * COUNT}, "group must be a numpy array"),
        ({"input_ids": np.zeros(COUNT, int)}, "input_ids must be a numpy array of 2 dimensions"),
        (
            {"input_ids": np.full((COUNT, 9), 999)},
            "a token of the input of example test-0000 is 999",
        ),
        ({"target": None}, "target must be a numpy array of 1 dimensions"),
        ({"target": np.array(1)}, "target must be a numpy array of 1 dimensions"),
        ({"covariates": None}, "covariates must be a mapping, not None"),
        ({"covariates": {"a\nb": [1.0]}}, "a covariate's name must be"),
        (
            {"id": np.full(COUNT, "a\nb"), "target": np.full(COUNT, 4)},
            r"target of example 'a\nb' is 4",
        ),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], said: str):
    with pytest.raises(ConfigError) as error:
        example_work(changed(**change), inputs=True)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((40, 2)), "must give a dict, not array("),
        ({"test": None}, "split test: must be Examples, not NoneType"),
        ({"dev": 1, 3: 1}, "task letters has splits dev, 3; known are fit, val, test"),
    ],
)
def test_what_is_no_splits_of_examples_is_refused(given: object, said: str):
    class Odd(Letters):
        def examples(self):
            return given

    with pytest.raises(ConfigError) as error:
        example_work(Odd(), inputs=True)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
