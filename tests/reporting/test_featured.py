"""Which readouts the figures of a store show."""

import dataclasses

from tests.reporting.planted import planted_results
from trajdiag.reporting.board import board
from trajdiag.reporting.difficulty_figures import exits_figure
from trajdiag.reporting.names import CONFIDENCE, PREDICTION_CHANGE, STATE_CHANGE


def test_small_multiples_take_each_stores_best_by_val_and_the_first_screen_one_of_each_kind():
    stores = ["mano-fixed-uniform", "mano-joint-linear"]
    results = planted_results(stores)
    indexed = board(results)
    for store in stores:
        best_first = results.ranked(store)
        expected = [
            next(name for name in best_first if name in family)
            for family in (CONFIDENCE, PREDICTION_CHANGE, STATE_CHANGE)
        ]
        gates = [name for name in best_first if indexed.kind(name) == "gate"][:2]
        native = [name for name in best_first if name == "native"]
        featured = [name for name in indexed.featured(store) if name]
        assert featured == [*expected, *sorted(gates), *native]
        assert {*indexed.principals(store)} - {"fixed"} <= {*featured}
    kinds = [indexed.kind(name) for name in indexed.principals("mano-joint-linear")]
    assert kinds == ["native", "gate", "signal", "fixed"]


def test_a_users_own_signals_take_the_places_of_families_that_a_store_lacks():
    results = planted_results(["mano-joint-linear"])
    built_in = {*CONFIDENCE, *PREDICTION_CHANGE, *STATE_CHANGE}
    called = {name: f"own-{name}" for name in built_in}

    def renamed(rows):
        return [
            dataclasses.replace(row, readout=called.get(row.readout, row.readout)) for row in rows
        ]

    own = dataclasses.replace(
        results, readouts=renamed(results.readouts), scores=renamed(results.scores)
    )
    indexed = board(own)
    best = [name for name in own.ranked("mano-joint-linear") if name.startswith("own-")]
    assert [name for name in indexed.featured("mano-joint-linear") if name][:3] == best[:3]


def test_figures_have_a_column_for_each_kind_that_a_store_has():
    stores = ["mano-fixed-uniform", "mano-joint-linear"]
    indexed = board(planted_results(stores))
    rows = exits_figure(indexed).rows
    assert len({len(row.panels) for row in rows}) == 1
    assert rows[0].panels[-1] is None and rows[1].panels[-1] is not None  # the native gate
    for store, row in zip(stores, rows, strict=True):
        names = [panel.name for panel in row.panels if panel]
        assert names == [f"exits-{store}-{name}" for name in indexed.featured(store) if name]
