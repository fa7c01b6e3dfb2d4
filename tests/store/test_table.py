"""A store as a tidy table: a row an example and loop."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from tests.store.planted import planted
from trajdiag.errors import UnknownNameError
from trajdiag.signals.registry import KEPT
from trajdiag.store.from_arrays import from_arrays


@pytest.fixture(scope="module")
def a():
    return planted(examples=60, loops=3, classes=5)


@pytest.fixture(scope="module")
def store(a, tmp_path_factory):
    return from_arrays(
        tmp_path_factory.mktemp("table") / "x.zarr",
        *(a.hidden, a.logits, a.target, a.gate_logit, a.difficulty, a.group, a.split),
        covariates={"loop": np.arange(60)},
    )


def test_rows_are_examples_in_order_and_the_loops_of_each(store):
    frame = store.to_pandas()
    assert len(frame) == 60 * 3
    assert frame["example"].tolist() == [i for i in range(60) for _ in range(3)]
    assert frame["loop"].tolist() == [1, 2, 3] * 60


def test_every_number_is_that_of_its_example_and_loop(store, a):
    frame = store.to_pandas()
    log_p = log_softmax(a.logits.double().numpy(), axis=2)
    for row in frame.itertuples():
        i, t = row.example, row.loop - 1
        assert row.id == f"{i:08d}"
        assert (row.split, row.group) == (a.split[i], a.group[i])
        assert (row.difficulty, row.target) == (a.difficulty[i], a.target[i])
        assert row.prediction == int(a.logits[i, t].argmax())
        assert row.correct == (row.prediction == row.target)
        assert row.cross_entropy == pytest.approx(-log_p[i, t, row.target])
        assert row.target_probability == pytest.approx(np.exp(log_p[i, t, row.target]))
        assert row.gate_logit == pytest.approx(float(a.gate_logit[i, t]))
    # a covariate may be called as anything else is
    assert frame["covariate/loop"].tolist() == frame["example"].tolist()


def test_kept_signals_are_columns_and_nan_before_their_first_loop(store):
    frame = store.to_pandas()
    assert list(frame.columns[-len(KEPT) - 1 : -1]) == list(KEPT)
    for name in KEPT:
        np.testing.assert_array_equal(frame[name], store.signal(name).ravel())
    assert frame.loc[frame["loop"] == 1, "hidden_displacement"].isna().all()
    assert frame.loc[frame["loop"] > 1, "hidden_displacement"].notna().all()


def test_derived_signals_come_when_asked_for(store):
    frame = store.to_pandas("val", signals=["energy", "entropy"])
    np.testing.assert_array_equal(frame["energy"], store.signal("energy", "val").ravel())
    assert set(frame.columns) & set(store.signal_names) == {"energy", "entropy"}
    assert not set(store.to_pandas(signals=[]).columns) & set(store.signal_names)


def test_a_split_is_those_rows_of_the_whole(store):
    whole = store.to_pandas()
    expected = whole[whole["split"] == "test"].reset_index(drop=True)
    pd.testing.assert_frame_equal(store.to_pandas("test"), expected)


def test_a_store_narrowed_to_some_examples_gives_theirs(store):
    frame = store.only(np.array([3, 40, 59])).to_pandas()
    assert frame["example"].unique().tolist() == [3, 40, 59]
    whole = store.to_pandas()
    expected = whole[whole["example"].isin([3, 40, 59])].reset_index(drop=True)
    pd.testing.assert_frame_equal(frame, expected)


def test_types_are_those_that_pandas_works_with(store):
    types = store.to_pandas().dtypes
    assert types["split"] == pd.CategoricalDtype(["fit", "val", "test"])
    assert types["correct"].name == "bool"
    assert types["id"] == "str"
    assert {types[name].name for name in ("example", "group", "target", "loop", "prediction")} == {
        "int64"
    }


def test_a_store_without_a_gate_has_no_column_for_it(tmp_path, a):
    store = from_arrays(tmp_path / "x.zarr", a.hidden, a.logits, a.target)
    assert "gate_logit" not in store.to_pandas().columns


def test_unknown_splits_and_signals_are_refused(store):
    with pytest.raises(UnknownNameError, match="'train'"):
        store.to_pandas("train")
    with pytest.raises(UnknownNameError, match="did you mean entropy"):
        store.to_pandas(signals=["entrpy"])
