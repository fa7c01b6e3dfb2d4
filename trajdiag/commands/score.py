"""`trajdiag score`: the scoreboard, as a table, JSON or CSV."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from trajdiag.commands.console import print_table, say_store, with_interval
from trajdiag.commands.deploying import deploy, read_target
from trajdiag.deployment.targets import TargetConfig
from trajdiag.errors import UsageError
from trajdiag.names import options_of
from trajdiag.reporting.csv_files import csv_table
from trajdiag.reporting.names import target_depths
from trajdiag.results import Results, ScoreRow
from trajdiag.scoring.stores import ScoreConfig, open_stores
from trajdiag.scoring.stores import score as score_stores

_COLUMNS = (
    ("depth@final", "depth", 1),
    ("accuracy@final", "accuracy %", 100),
    ("area", "area %", 100),
)
"""Metric, heading, factor; then come depths at targets and `spearman`."""


def score(
    *stores: Annotated[str, Parameter(help="Names or paths; the newest complete one by default.")],
    json_output: Annotated[
        bool, Parameter(name="--json", negative=(), help="Print all tables as one JSON document.")
    ] = False,
    csv: Annotated[bool, Parameter(negative=(), help="Print the score rows as CSV.")] = False,
    target: Annotated[
        str | None,
        Parameter(
            help="Choose a threshold to deploy instead, and save it as a readout file: "
            "accuracy=SHARE (the least mean depth that reaches it on val), depth=LOOPS (the most "
            "accurate within that mean depth), or risk=SHARE (of examples right at the last loop "
            "and wrong at the exit; promised of new data)."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        Parameter(help="The chance that the promised risk is broken; 0.05 when absent."),
    ] = None,
    options: Annotated[ScoreConfig, Parameter(name="*")] = ScoreConfig(),  # noqa: B008
) -> None:
    """Score every readout of one or more stores.

    Thresholds are chosen on val and reported on test, best first on val: `depth` and `accuracy` at
    the least depth within --slack of the last loop (or at --threshold.NAME), `area` over all
    mean-depth budgets, `depth@95` at the least depth that reaches 95% (and so on, --targets),
    `spearman` of exit depth with difficulty. Brackets are intervals over inputs, at --confidence; a
    dash is a target that val never reaches. The oracle leaves in hindsight: the bound at equal
    depth.
    """
    if json_output and csv:
        raise UsageError("give --json or --csv, not both")
    asked = _target(target, delta, options)
    say_store(stores, options.cache_dir)
    if asked is not None:
        found = open_stores(stores or None, options.cache_dir)
        deploy(found, options.readouts, asked, json_output=json_output, csv_output=csv)
        return
    results = score_stores(stores or None, **options_of(options))
    if json_output:
        sys.stdout.write(results.to_json())
    elif csv:
        sys.stdout.write(csv_table(results, "scores"))
    else:
        for row in results.stores:
            print_table(_scoreboard(results, row.store), keys=1)


def _target(target: str | None, delta: float | None, options: ScoreConfig) -> TargetConfig | None:
    """What `--target` asks for; it chooses the threshold, which other options choose otherwise."""
    fields = {field.name for field in dataclasses.fields(TargetConfig)}
    shared = fields & {field.name for field in dataclasses.fields(ScoreConfig)}
    asked = read_target(target, delta, **{name: getattr(options, name) for name in shared})
    for field in dataclasses.fields(ScoreConfig):
        changed = getattr(options, field.name) != getattr(ScoreConfig(), field.name)
        if asked is not None and changed and field.name not in {*shared, "readouts"}:
            option = field.name.replace("_", "-")
            raise UsageError(f"--{option} has no part in --target, which chooses by itself")
    return asked


def _scoreboard(results: Results, store: str) -> Table:
    test = [row for row in results.scores if row.store == store and row.split == "test"]
    cells = {(row.readout, row.metric): row for row in test}
    readouts = results.ranked(store)
    more = [(metric, metric, 1) for metric in (*target_depths(r.metric for r in test), "spearman")]
    columns = [c for c in (*_COLUMNS, *more) if any((r, c[0]) in cells for r in readouts)]

    table = Table(title=escape(store), title_justify="left")
    table.add_column("readout")
    for _, heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for readout in readouts:
        found = [(_row(cells, readout, metric), factor) for metric, _, factor in columns]
        table.add_row(escape(readout), *(_cell(row, factor) for row, factor in found))
    return table


def _row(cells: Mapping[tuple[str, str], ScoreRow], readout: str, metric: str) -> ScoreRow | None:
    """The number; that at the user's own threshold, where one was given."""
    given = cells.get((readout, metric.replace("@final", "@threshold")))
    return given or cells.get((readout, metric))


def _cell(row: ScoreRow | None, factor: float) -> str:
    if row is None or row.value is None:
        return "-"
    return with_interval(row.value, row.low, row.high, factor, 1 if factor == 100 else 2)
