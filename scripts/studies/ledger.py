"""The study's numbers, looked up and printed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajdiag.reporting.numerals import MISSING, metric_text

LONGER = "-longer"
ENTRY = 5
"""What a number is kept as: value, low, high, how it was summed up, and what every seed has."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number over the seeds of a setting."""

    metric: str
    value: float | None
    """The mean; of a depth at a target that some seed misses the median, None where that is not
    reached."""
    low: float | None
    high: float | None
    seeds: Sequence[float | None]
    """That of every seed, in order."""
    is_interval: bool = True
    """Whether `low` and `high` are an interval, else the least and greatest seed."""

    @property
    def n(self) -> int:
        return len(self.seeds)

    @property
    def reached(self) -> int:
        """Seeds that have the number."""
        return sum(seed is not None for seed in self.seeds)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval or range, what is not reached at infinity; None where there is none."""
        if self.low is None:
            return None
        return self.low, math.inf if self.high is None else self.high

    @property
    def is_depth(self) -> bool:
        return self.metric.startswith("depth@")

    def text(self, decimals: int = 1, *, counted: bool = False) -> str:
        """Such as `2.10 [1.90, 2.40]`, or with round brackets for a range over seeds; with how many
        seeds have it where that is asked for or some have not."""
        shown = printed(self.metric, self.value, decimals)
        if self.value is None:
            shown = "not reached" if self.is_depth else MISSING
        elif self.low is not None:
            ends = [
                "not reached" if end is None else printed(self.metric, end, decimals)
                for end in (self.low, self.high)
            ]
            shown += " [{}, {}]".format(*ends) if self.is_interval else " ({}–{})".format(*ends)
        return f"{shown}, {self.reached}/{self.n}" if counted or self.reached < self.n else shown


def printed(metric: str, value: float | None, decimals: int = 1) -> str:
    """A value in its metric's unit."""
    return metric_text(_PRINTED_AS.get(metric, metric), value, decimals)


_PRINTED_AS = {
    "ordering": "spearman",
    **dict.fromkeys(("commonest-exit", "modal-exit", "modal-exit@0.5"), "share"),
    **{f"{p}/loops": "depth" for p in ("unexposed", "learnable", "misfit", "regret")},
    "trajectory_regret/loops": "depth",
    "trajectory_regret/integrated": "regret",
}
"""Metrics of the study that are printed like one of the report's."""


class Ledger:
    """Lookups in a study's JSON."""

    def __init__(self, study: Mapping[str, Any]) -> None:
        self.study = study

    def number(self, key: str | None, readout: str, metric: str) -> Number | None:
        """Of the setting `task/setting`; None where there is none."""
        found = self.study["numbers"].get(key, {}).get(readout, {}).get(metric)
        if found is None:
            return None
        value, low, high, how, seeds = found
        return Number(
            metric=metric, value=value, low=low, high=high, seeds=seeds,
            is_interval=how == "interval",
        )  # fmt: skip

    def curve(self, key: str, readout: str) -> list[float]:
        """Accuracy at evenly spaced mean depths from 1 to T; empty where there is none."""
        return self.study["curves"].get(key, {}).get(readout, [])

    def text(
        self,
        key: str | None,
        readout: str,
        metric: str,
        decimals: int = 1,
        *,
        counted: bool = False,
    ) -> str:
        """The number as it is printed, a dash where there is none."""
        found = self.number(key, readout, metric)
        return MISSING if found is None else found.text(decimals, counted=counted)

    def settings(self, task: str, **wanted: Any) -> list[str]:
        """Keys of the task's settings that finished and are as wanted, such as gate="linear"."""
        return [
            key
            for key, setting in self.study["settings"].items()
            if setting["task"] == task
            and key in self.study["numbers"]
            and all(setting[name] == value for name, value in wanted.items())
        ]

    def readouts(self, key: str) -> Sequence[str]:
        """All that were scored on a setting."""
        return list(self.study["numbers"].get(key, {}))

    def best_beta(self, task: str, gate: str, prior: str) -> str | None:
        """The key of the joint setting whose own gate has the largest area on val, over seeds."""
        areas = {
            key: found.value
            for key in self.settings(task, gate=gate, prior=prior)
            if (found := self.number(key, "native", "area/val")) and found.value is not None
        }
        return max(areas, key=lambda key: areas[key]) if areas else None

    def largest_beta(self, task: str, gate: str, prior: str) -> str | None:
        """The key of the planned joint setting of the largest beta, finished or not."""
        wanted = (task, gate, prior)
        betas = {
            key: s["beta"]
            for key, s in self.study["settings"].items()
            if (s["task"], s["gate"], s["prior"]) == wanted
        }
        return max(betas, key=lambda key: betas[key]) if betas else None

    def finding(self, code: str, key: str) -> int:
        """In how many seeds the report tells of it."""
        return self.study["findings"][code].get(key, 0)

    def reference(self, task: str) -> tuple[str, str] | None:
        """The key of the setting, and the seed, that the others of the task are held against."""
        name = self.study["references"].get(task)
        if name is None:
            return None
        setting, _, seed = name.removeprefix(f"{task}-").rpartition("-s")
        return f"{task}/{setting}", seed

    def loops(self, task: str) -> int:
        """T."""
        return self.study["sizes"][task].get("loops", 0)

    def label(self, key: str) -> str:
        """A setting in words."""
        s = self.study["settings"][key.replace(LONGER, "")]
        prior = s["prior"] + (f" {s['lam']:g}" if s["lam"] is not None else "")
        if s["objective"] == "final":
            return "last loop only"
        if s["objective"] == "fixed":
            return f"fixed {prior}"
        gate = "MLP" if s["gate"] == "mlp" else s["gate"]
        return f"{gate} gate, {prior}, β {s['beta']:g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers flush right."""
    rule = "|".join([":--", *["--:"] * (len(head) - 1)])
    lines = [f"| {' | '.join(head)} |", f"|{rule}|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
