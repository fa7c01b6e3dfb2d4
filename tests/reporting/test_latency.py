"""What was measured live, in a report that has it; reports without it say nothing of it."""

import pytest

from tests.reporting.planted import planted_results
from tests.reporting.planted_causes import add_latency
from trajdiag.reporting import latency_tables
from trajdiag.reporting.board import board
from trajdiag.reporting.folder import report_files
from trajdiag.results import Results

STORES = ["mano-fixed-uniform", "mano-joint-linear"]


@pytest.fixture(scope="module")
def results() -> Results:
    found = planted_results(STORES, examples=60)
    add_latency(found, STORES[1])
    return found


def test_the_table_has_a_row_a_readout_and_side(results):
    (table,) = latency_tables.latency(board(results))
    assert table.title == STORES[1]
    cells = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert [row["Run in"].text for row in cells] == [
        "batches, cpu, 1 thread",
        "one at a time, cpu, 1 thread",
    ]
    first = cells[0]
    assert first["Readout"].text == "top-1 confidence"
    assert (first["Speed-up"].text, first["Speed-up"].interval) == ("1.77", "[1.67, 1.87]")
    assert first["Ideal"].text == "2.02"
    assert first["To the rest, %"].text == "−2.4"
    assert first["FLOPs, % of full"].text == "50"
    assert first["Exits that differ"].text == "3 of 2,000"


def test_both_pages_show_it_where_it_is_there_and_only_there(results):
    files = report_files(results, "t")
    assert "Early exit, measured" in files["report.html"] and "batches, cpu" in files["report.html"]
    assert "## Early exit, measured" in files["report.md"]
    assert files["tables/latency.csv"].count("\n") == 1 + len(results.latency)
    without = report_files(planted_results(STORES, examples=60), "t")
    assert "Early exit" not in without["report.html"] + without["report.md"]
    assert without["tables/latency.csv"].count("\n") == 1
