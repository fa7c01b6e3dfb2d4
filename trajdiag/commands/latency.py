"""`trajdiag latency`: what early exit saves, as tables or JSON."""

import shlex
import sys
from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from trajdiag.commands.console import print_table, say_store, to_stderr, with_interval
from trajdiag.latency.config import LatencyConfig
from trajdiag.latency.measuring import measure_latency
from trajdiag.names import options_of
from trajdiag.results import LatencyRow, Results

_SAVED = (
    ("depth", "mean exit\ndepth, loops", 1, 2),
    ("accuracy", "accuracy,\n%", 100, 1),
    ("accuracy/full", "accuracy at\nfull depth, %", 100, 1),
    ("speedup", "speed-up,\ntimes", 1, 2),
    ("speedup/ideal", "ideal,\ntimes", 1, 2),
    ("speedup/share-of-ideal", "share of\nideal, %", 100, 0),
    ("lost/fixed", "time lost to\nfixed cost, %", 100, 1),
    ("lost/readout", "time lost to\nthe readout, %", 100, 1),
    ("lost/rows", "time lost to\nlong rows, %", 100, 1),
    ("lost/rest", "time lost to\nthe rest, %", 100, 1),
    ("differing/depth", "exits unlike\nthe store's", 1, 0),
)
"""Metric, heading with its unit, factor, decimals."""
_FLOPS = (
    ("flops/full", "full depth,\nMFLOPs", 1e-6, 3),
    ("flops/live", "run live,\nMFLOPs", 1e-6, 3),
    ("flops/readout", "the readout,\nMFLOPs", 1e-6, 3),
)
_TIMES = (
    ("full", "full depth,\nms", 1, 4),
    ("live", "run live,\nms", 1, 4),
)
_COST = (
    *_TIMES,
    ("cost/fixed", "fixed cost,\nms", 1, 4),
    ("cost/loop", "one loop,\nms", 1, 4),
    ("cost/readout", "one reading,\nms", 1, 4),
    ("cost/rms", "error of the\nfit, ms", 1, 4),
    ("cost/r2", "R² of\nthe fit", 1, 3),
    *_FLOPS,
)
_DECODED = (
    ("depth", "mean exit\ndepth, loops", 1, 2),
    ("accuracy", "accuracy,\n%", 100, 1),
    ("accuracy/full", "accuracy at\nfull depth, %", 100, 1),
    ("agreement", "tokens as at\nfull depth, %", 100, 1),
    ("speedup", "speed-up,\ntimes", 1, 2),
    ("speedup/ideal", "ideal,\ntimes", 1, 2),
    ("loops-run", "loops run\na token", 1, 2),
    ("differing/depth", "exits unlike\nthe store's", 1, 0),
    ("differing/prediction", "predictions unlike\nthe store's", 1, 0),
)
_TOKEN = (*_TIMES, *_FLOPS)
_RUN = {"batched": "in batches", "one": "one at a time"}
_SPREAD = ("speedup", "full", "live")
"""What is shown with its quartiles."""


def latency(
    store: Annotated[
        str | None, Parameter(help="Name or path; the newest complete one by default.")
    ] = None,
    *,
    json_output: Annotated[
        bool, Parameter(name="--json", negative=(), help="Print the rows as one JSON document.")
    ] = False,
    options: Annotated[LatencyConfig, Parameter(name="*")] = LatencyConfig(),  # noqa: B008
) -> None:
    """Run readouts live, loop by loop, on a store's own model and examples, beside full depth.

    The first table: mean exit depth and accuracy, the speed-up measured (with the quartiles of its
    repeats) and the ideal one, T by the mean depth; what is lost against the ideal, in shares of
    full depth's time, to what is paid whatever the depth, to computing the readout, and to all
    else; and how many exits differ from those that the store predicts. The second: milliseconds an
    example, as `fixed cost + loops x one loop + readings x one reading`, and matrix products. In
    batches, then one example at a time. The numbers are kept, and `report` shows them.

    With `--context live`, on running text: the same text token by token with a cache of keys and
    values per loop, where a token that has left leaves later ones all loops (full-cached), those
    that they want (recompute), or its last one in place of the deeper ones (copy-last).
    The second table is by decoded token.
    """
    say_store([] if store is None else [store], options.cache_dir)
    results = measure_latency(
        store,
        command=shlex.join(["trajdiag", *sys.argv[1:]]),
        progress=to_stderr,
        **options_of(options),
    )
    if json_output:
        sys.stdout.write(results.to_json())
        return
    of = f"{escape(results.config['store'])}, {results.config['device']}"
    if options.context == "live":
        print_table(_table(f"{of}: token by token", results, _DECODED, "earlier tokens"), keys=3)
        print_table(_table(f"{of}: what a token costs", results, _TOKEN, "earlier tokens"), keys=3)
        return
    print_table(_table(f"{of}: what early exit saves", results, _SAVED), keys=2)
    print_table(_table(f"{of}: what an example costs", results, _COST), keys=2)


def _table(
    title: str,
    results: Results,
    columns: tuple[tuple[str, str, float, int], ...],
    context: str | None = None,
) -> Table:
    """A line a readout and side; with the heading `context` a line for each of them."""
    table = Table(title=title, title_justify="left")
    for heading in ("readout", "run", *([context] if context else [])):
        table.add_column(heading)
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    lines: dict[tuple[str, float | None, str, str], dict[str, LatencyRow]] = {}
    for row in results.latency:
        key = row.readout, row.threshold, row.batch, row.context
        lines.setdefault(key, {})[row.metric] = row
    for (readout, _, batch, of), cells in lines.items():
        shown = [_cell(cells, metric, factor, decimals) for metric, _, factor, decimals in columns]
        table.add_row(escape(readout), _RUN.get(batch, batch), *([of] if context else []), *shown)
    return table


def _cell(cells: Mapping[str, LatencyRow], metric: str, factor: float, decimals: int) -> str:
    row = cells[metric]
    if row.value is None:
        return "-"
    low, high = (row.low, row.high) if metric in _SPREAD else (None, None)
    return with_interval(row.value, low, high, factor, decimals)
