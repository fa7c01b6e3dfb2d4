"""What was measured live, in a report that has it; reports without it say nothing of it."""

import pytest

from tests.reporting.planted import planted_results
from tests.reporting.planted_causes import add_contexts, add_latency
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
    assert [row["Run"].text for row in cells] == [
        "in batches, cpu, 1 thread",
        "one at a time, cpu, 1 thread",
    ]
    first = cells[0]
    assert first["Readout"].text == "top1"
    assert (first["Speed-up, times"].text, first["Speed-up, times"].interval) == (
        "1.77",
        "[1.67, 1.87]",
    )
    assert first["Ideal, times"].text == "2.02"
    assert first["Time lost to long rows, %"].text == "1.2"
    assert first["Time lost to the rest, %"].text == "−2.4"
    assert first["FLOPs, % of full depth’s"].text == "50"
    assert first["Exits unlike the store’s"].text == "3 of 2,000"


def test_both_pages_show_it_where_it_is_there_and_only_there(results):
    files = report_files(results, "t")
    assert "Early exit, measured" in files["report.html"] and "batches, cpu" in files["report.html"]
    assert "## Early exit, measured" in files["report.md"]
    assert files["tables/latency.csv"].count("\n") == 1 + len(results.latency)
    without = report_files(planted_results(STORES, examples=60), "t")
    assert "Early exit" not in without["report.html"] + without["report.md"]
    assert without["tables/latency.csv"].count("\n") == 1


def test_what_was_decoded_token_by_token_has_a_table_of_its_own(results):
    decoded = planted_results(STORES, examples=60)
    add_contexts(decoded, STORES[0])
    assert latency_tables.latency(board(decoded)) == []
    (table,) = latency_tables.contexts(board(decoded))
    cells = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert [row["Earlier tokens leave"].text for row in cells] == [
        "all loops",
        "loops as wanted",
        "last loop’s copy",
    ]
    last = cells[-1]
    assert (last["Speed-up, times"].text, last["Speed-up, times"].interval) == (
        "1.88",
        "[1.78, 1.98]",
    )
    assert (last["Tokens as at full depth, %"].text, last["Loops run a token"].text) == (
        "93.4",
        "3.25",
    )
    assert last["Predictions unlike the store’s"].text == "1,234 of 2,000"
    assert latency_tables.contexts(board(results)) == []
    heading = "Early exit token by token, measured"
    files = report_files(decoded, "t")
    assert heading in files["report.html"] and f"## {heading}" in files["report.md"]
    assert "Early exit, measured" not in files["report.html"] + files["report.md"]
    without = report_files(results, "t")
    assert heading not in without["report.html"] + without["report.md"]
