"""Results as tables for pandas."""

import dataclasses

import pytest

from tests.reporting.planted import planted_results
from trajdiag.errors import UnknownNameError
from trajdiag.results import ROW_TYPES


@pytest.mark.parametrize("table", ROW_TYPES)
def test_each_table_becomes_a_frame_of_its_rows(table):
    pytest.importorskip("pandas")
    results = planted_results(["mano-fixed-uniform", "mano-joint-linear"], examples=60)
    frame = results.to_pandas(table)
    assert list(frame.columns) == [field.name for field in dataclasses.fields(ROW_TYPES[table])]
    assert len(frame) == len(getattr(results, table))


def test_a_table_that_there_is_not_is_unknown_and_those_there_are_are_named():
    pytest.importorskip("pandas")
    results = planted_results(["mano-fixed-uniform"], examples=60)
    with pytest.raises(UnknownNameError, match=r"unknown table 'score', did you mean scores") as it:
        results.to_pandas("score")
    assert all(table in str(it.value) for table in ROW_TYPES)
    for name in ("config", "verdict", "__class__"):
        with pytest.raises(UnknownNameError, match="unknown table"):
            results.to_pandas(name)


def test_results_show_themselves_in_a_line():
    shown = repr(planted_results(["mano-joint-linear"], examples=40))
    assert shown.startswith("Results(mano-joint-linear: stores 1, readouts ")
    assert len(shown) < 300 and "\n" not in shown
