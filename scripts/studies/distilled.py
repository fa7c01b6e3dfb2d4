"""A report's results to the few numbers that the study's page is made of.

Over the seeds of a setting each number is either `interval`, with the report's, over seeds and
inputs, or `range`, the mean over seeds with the least and the greatest of them. Each keeps what
every seed has.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from studies.runs import LONGER, Run, cpu_seconds
from studies.settings import Scale

Rows = Mapping[str, list[dict[str, Any]]]

INTERVALS = ("area", "depth@final", "accuracy@final", "depth@95", "depth@98", "depth@99")
RANGED = ("final_accuracy", "accuracy@95", "accuracy@98", "accuracy@99", "area/by-luck")
PARTS = ("trajectory_regret", "unexposed", "learnable", "misfit", "regret")
PART_UNITS = {"integrated": "integrated", "accuracy": "loops"}
"""The unit of a part of regret by where the report measures it."""
DRAWN_READOUTS = ("entropy", "top1", "logit_margin", "native", "mlp-ponder", "oracle")
"""Those whose curve may be in the page's figure."""
STEP = 0.1
"""Loops between two points of a curve."""
FINDINGS = ("gate-collapsed", "overthinking", "misordered", "trajectory-bound", "chance")


def distil(
    results: Rows, scale: Scale, runs: Sequence[Run], failed: Mapping[str, str], root: Any
) -> dict[str, Any]:
    """The study as JSON values; `runs` are those that finished."""
    by_store = _by_store(results)
    settings = {}
    numbers: dict[str, dict[str, Any]] = {}
    curves: dict[str, dict[str, list[float]]] = {}
    for study in scale.tasks:
        for setting in study.settings:
            stores = [run.name for run in runs if (run.task, run.setting) == (study.task, setting)]
            key = f"{study.task}/{setting.name}"
            settings[key] = {
                "task": study.task,
                "setting": setting.name,
                "objective": setting.objective,
                "prior": setting.prior,
                "gate": setting.gate if setting.objective == "joint" else None,
                "lam": setting.lam if setting.prior == "geometric" else None,
                "beta": setting.beta if setting.objective == "joint" else None,
                "six": setting in study.six,
                "seeds": study.seeds,
                "finished": len(stores),
            }
            numbers[key] = _over_seeds(results, by_store, stores)
            if setting in (study.six or study.settings):
                curves[key] = _curves(by_store, stores)
            if setting in study.longer:
                longer = [name + LONGER for name in stores]
                numbers[f"{study.task}{LONGER}/{setting.name}"] = _over_seeds(
                    results, by_store, longer
                )
    return {
        "scale": scale.name,
        "about": scale.about,
        "sizes": {study.task: _sizes(results, study.task) for study in scale.tasks},
        "settings": settings,
        "references": _references(results, scale),
        "failed": dict(sorted(failed.items())),
        "findings": _findings(results),
        "numbers": {key: value for key, value in numbers.items() if value},
        "curves": {key: value for key, value in curves.items() if value},
        "timings": {"live": _live(results), "cpu_seconds": _spent(runs, root)},
    }


def text_of(study: Mapping[str, Any]) -> str:
    """The study as JSON, a readout a line."""
    printed = {key: _json(value) for key, value in study.items()}
    printed["settings"] = _block({name: _json(s) for name, s in study["settings"].items()})
    for part in ("numbers", "curves"):
        printed[part] = _block(
            {
                name: _block({readout: _json(found) for readout, found in readouts.items()})
                for name, readouts in study[part].items()
            }
        )
    return _block(printed) + "\n"


def _block(printed: Mapping[str, str]) -> str:
    """An object of values that are JSON already, a key a line."""
    return "{\n" + ",\n".join(f"{_json(key)}: {text}" for key, text in printed.items()) + "\n}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _by_store(results: Rows) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The rows of every table by their store."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for table in ("scores", "frontier", "diagnosis", "quality", "profile"):
        for row in results[table]:
            found[row["store"]][table].append(row)
    return found


def _over_seeds(
    results: Rows, by_store: Mapping[str, Mapping[str, Any]], stores: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """By readout and metric: value, low, high, how it was summed up, and what every seed has."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    seen: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    for store in stores:
        for readout, metric, value in _of_store(by_store[store]):
            seen[readout, metric][store] = value
    given = _with_interval(results, by_store, stores)
    for (readout, metric), of_store in seen.items():
        row = given.get((readout, metric))
        if len(of_store) < len(stores) and metric.partition("/")[0] in PARTS:
            continue  # a part of regret that some seeds lack
        values = [of_store.get(store) for store in stores]
        found[readout][metric] = (
            _ranged(values)
            if row is None
            else _entry(row["value"], row["low"], row["high"], "interval", values)
        )
    return {readout: dict(sorted(metrics.items())) for readout, metrics in sorted(found.items())}


def _with_interval(
    results: Rows, by_store: Mapping[str, Mapping[str, Any]], stores: Sequence[str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """The report's rows over these seeds, by readout and metric. A depth at a target is the mean
    where every seed reaches it, else the median."""
    rows = _single(by_store, stores)
    for row in results["replicas"]:
        if set(row["replicas"].split(" + ")) == set(stores):
            rows.append(row)
    found = {(row["readout"], row["metric"]): row for row in rows}
    for readout, metric in list(found):
        if metric.startswith("mean-depth@"):
            found[readout, metric.removeprefix("mean-")] = found.pop((readout, metric))
    return {key: row for key, row in found.items() if _has_interval(key[1])}


def _has_interval(metric: str) -> bool:
    return metric in INTERVALS or metric.endswith("/integrated")


def _single(
    by_store: Mapping[str, Mapping[str, Any]], stores: Sequence[str]
) -> list[dict[str, Any]]:
    """Of a setting of one seed there are no replicas: its own scores stand for them."""
    if len(stores) != 1:
        return []
    own = by_store[stores[0]]
    scores = [r for r in own["scores"] if r["split"] == "test" and r["metric"] in INTERVALS]
    parts = [
        {**r, "metric": f"{r['part']}/integrated"}
        for r in own["diagnosis"]
        if r["at"] == "integrated" and r["part"] in PARTS
    ]
    return scores + parts


def _of_store(own: Mapping[str, Any]) -> Iterable[tuple[str, str, float | None]]:
    """(readout, metric, value) of one seed."""
    for row in own["scores"]:
        metric, value = row["metric"], row["value"]
        if row["split"] == "val" and metric == "area":
            yield row["readout"], "area/val", value
        elif row["split"] == "test" and (
            metric in RANGED
            or metric in INTERVALS
            or metric.startswith(("accuracy@loop=", "accuracy@depth="))
        ):
            yield row["readout"], metric, value
        if row["split"] == "test" and metric.endswith("/test-chosen"):
            yield row["readout"], metric, value
        if row["split"] == "test" and metric in ("depth@95", "depth@98", "depth@99"):
            yield row["readout"], f"{metric}/if-reached", value
    for row in own["diagnosis"]:
        if row["at"] in PART_UNITS and row["part"] in PARTS:
            yield row["readout"], f"{row['part']}/{PART_UNITS[row['at']]}", row["value"]
    for row in own["quality"]:
        if row["metric"] == "spearman-bins/difficulty" and row["loop"] is None:
            yield row["readout"], "ordering", row["value"]
        if row["metric"].startswith("overthinking") and row["loop"] is None:
            yield "fixed", row["metric"], row["value"]
        if row["metric"].startswith("modal-exit"):
            yield row["readout"], row["metric"], row["value"]
    areas = {r["readout"]: r["value"] for r in own["scores"] if _is_area(r)}
    for readout in areas if "native" in areas else ():
        yield readout, "area/less-native", areas[readout] - areas["native"]
    yield from _of_profile(own["profile"])


def _is_area(score: Mapping[str, Any]) -> bool:
    return score["metric"] == "area" and score["split"] == "test"


def _curves(
    by_store: Mapping[str, Mapping[str, Any]], stores: Sequence[str]
) -> dict[str, list[float]]:
    """By readout the accuracy at mean depths 1, 1 + STEP, .. T: that of each seed lies on the line
    between the nearest two points of its frontier, and the mean over seeds is taken."""
    found: dict[str, list[float]] = {}
    for readout in DRAWN_READOUTS:
        lines = []
        for store in stores:
            frontier = by_store[store]["frontier"]
            loops = max((r["depth"] for r in frontier if r["readout"] == "fixed"), default=1)
            points = sorted(
                (r["depth"], r["accuracy"]) for r in frontier if r["readout"] == readout
            )
            if points:
                depth = np.linspace(1, loops, round((loops - 1) / STEP) + 1)
                lines.append(np.interp(depth, *zip(*points, strict=True)))
        if lines:
            found[readout] = [_rounded(value) for value in np.mean(lines, axis=0).tolist()]
    return found


def _of_profile(profile: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, str, float | None]]:
    """The share of examples at the commonest exit loop, and the last loop's accuracy by
    difficulty."""
    exits: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    examples: dict[str, dict[float, int]] = defaultdict(dict)
    last = max((row["loop"] for row in profile if row["quantity"] == "accuracy"), default=0)
    for row in profile:
        if row["quantity"] == "exits":
            exits[row["readout"]][row["loop"]] += row["value"] * row["n"]
            examples[row["readout"]][row["difficulty"]] = row["n"]
        elif row["quantity"] == "accuracy" and row["loop"] == last:
            yield "fixed", f"accuracy@difficulty={row['difficulty']:g}", row["value"]
    for readout, by_loop in exits.items():
        yield readout, "commonest-exit", max(by_loop.values()) / sum(examples[readout].values())


def _ranged(values: Sequence[float | None]) -> list[Any]:
    known = [value for value in values if value is not None]
    if not known:
        return _entry(None, None, None, "range", values)
    mean = math.fsum(known) / len(known)
    return _entry(mean, min(known), max(known), "range", values)


def _entry(
    value: float | None,
    low: float | None,
    high: float | None,
    how: str,
    seeds: Sequence[float | None],
) -> list[Any]:
    return [*(_rounded(x) for x in (value, low, high)), how, [_rounded(x) for x in seeds]]


def _rounded(value: float | None) -> Any:
    return None if value is None else round(value, 5) + 0.0


def _references(results: Rows, scale: Scale) -> dict[str, str | None]:
    """The store that the others of each task are held against."""
    return {
        study.task: next(
            (
                row["reference"]
                for row in results["diagnosis"]
                if row["store"].startswith(f"{study.task}-")
                and LONGER not in row["store"]
                and row["reference"] is not None
            ),
            None,
        )
        for study in scale.tasks
    }


def _findings(results: Rows) -> dict[str, dict[str, int]]:
    """How many stores of each setting a finding is told of, by code."""
    found: dict[str, dict[str, int]] = {code: {} for code in FINDINGS}
    for row in results["findings"]:
        if row["code"] in found:
            stem = row["store"].rpartition("-s")[0]
            longer = row["store"].endswith(LONGER)
            task, _, setting = stem.partition("-")
            key = f"{task}{LONGER if longer else ''}/{setting}"
            found[row["code"]][key] = found[row["code"]].get(key, 0) + 1
    return {code: dict(sorted(by.items())) for code, by in found.items()}


def _sizes(results: Rows, task: str) -> dict[str, Any]:
    """The sizes of a task's models and examples, as the first store tells them."""
    store = next((r for r in results["stores"] if r["store"].startswith(f"{task}-")), None)
    if store is None:
        return {}
    training = store["model"]["config"]["trajdiag"]["training"]["config"]
    kept = ("loops", "layers", "d_model", "heads", "feed_forward", "steps", "batch", "lr")
    options = ("modulus", "operators", "min_difficulty", "max_difficulty")
    parameters = store["task"]["parameters"]
    return {
        **{key: training[key] for key in kept},
        **{key: training[key] for key in ("dense", "curriculum", "harder_rows", "precision")},
        **{key: parameters[key] for key in options if key in parameters},
        "examples": store["examples"],
    }


def _live(results: Rows) -> list[dict[str, Any]]:
    """Measured early exit, and where live and offline differ."""
    wanted = (
        *("speedup", "speedup/ideal", "depth", "accuracy", "differing/depth"),
        *("differing/prediction", "live", "full"),
    )
    return [
        {key: row[key] for key in ("store", "readout", "batch", "metric", "value", "low", "high")}
        | {"n": row["n"]}
        for row in results["latency"]
        if row["metric"] in wanted
    ]


def _spent(runs: Sequence[Run], root: Any) -> dict[str, float]:
    """CPU seconds by task and part, over all finished runs."""
    total: dict[str, float] = defaultdict(float)
    for run in runs:
        for part, seconds in cpu_seconds(root, run).items():
            total[f"{run.task}/{part}"] += seconds
    return {key: round(value) for key, value in sorted(total.items())}
