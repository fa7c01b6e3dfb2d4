"""The readouts to run, and their thresholds."""

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trajdiag.deployment.readout_file import load_readout
from trajdiag.errors import StoreError, UnknownNameError
from trajdiag.latency.config import LatencyConfig
from trajdiag.latency.rule import LiveRule, live_rule
from trajdiag.metrics.curve import area, budget_curve
from trajdiag.metrics.frontier import Frontier, frontier
from trajdiag.models.base import LoopedModel
from trajdiag.readout import Readout, absence, list_readouts
from trajdiag.readout_registry import NO_RULES, deployable
from trajdiag.scoring.stores import ScoreConfig
from trajdiag.store.made_again import made_again_with
from trajdiag.store.reader import Store


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A readout with its threshold."""

    readout: Readout
    """Its first loop is the first at which it may leave."""
    threshold: float
    """NaN never leaves."""
    said: str
    """Where the threshold comes from."""

    def rule(self, model: LoopedModel, loops: int) -> LiveRule:
        """What runs live, on `loops` loops."""
        readout = self.readout
        named = readout.name if readout.gate is None else readout.gate
        first = min(readout.first_loop, loops)
        return live_rule(model, named, self.threshold, min_depth=first, loops=loops)


def choose(store: Store, config: LatencyConfig) -> list[Chosen]:
    """What `config` asks for of `store`.

    Raises UnknownNameError for a readout that the store does not have, ReadoutError or
    FingerprintError for a file that does not fit it, StoreError where a threshold is to be chosen
    and the store has no val.
    """
    known = {
        readout.name: readout
        for readout in list_readouts(store, cache_dir=config.cache_dir, min_depth=config.min_depth)
        if deployable(readout.kind, readout.name)
    }
    if config.readout is None:
        val = _Val(store)
        return [_at_final(readout, val) for readout in _best(list(known.values()), val)]
    found = []
    for number, name in enumerate(config.readout):
        given = config.threshold_of(number)
        if name not in known and _is_file(name):
            saved = load_readout(name)
            readout = saved.readout_of(store)
            first = max(saved.first_loop, saved.min_depth)
            chosen = Chosen(
                readout=dataclasses.replace(readout, first_loop=first),
                threshold=saved.point.threshold,
                said=f"of {name}",
            )
        elif name not in known:
            why = absence(store, name, config.cache_dir) or NO_RULES
            raise UnknownNameError("readout to run live", name, known, why)
        elif given is None:
            chosen = _at_final(known[name], _Val(store))
        else:
            chosen = Chosen(readout=known[name], threshold=given, said="as given")
        if given is not None:
            chosen = dataclasses.replace(chosen, threshold=given, said="as given")
        found.append(chosen)
    return found


def _is_file(name: str) -> bool:
    """Whether a path is meant, not a readout's name."""
    return Path(name).suffix == ".json" or os.sep in name or Path(name).is_file()


class _Val:
    """What val says of readouts."""

    def __init__(self, store: Store) -> None:
        if "val" not in store.splits:
            raise StoreError(
                f"store {store.name} has no val split, which thresholds are chosen on; give "
                f"--readout and --threshold, or {made_again_with(store, 'val')}"
            )
        self.store: Store = store
        self.correct: NDArray[np.bool_] = store.correct("val")

    def frontier(self, readout: Readout) -> Frontier:
        """Every operating point."""
        values = readout.values(self.store, "val")
        return frontier(values, self.correct, readout.direction, readout.first_loop)

    def area(self, readout: Readout) -> float:
        """By which readouts are ranked, here as elsewhere."""
        first, loops = float(self.correct[:, 0].mean()), self.store.loops
        curve = budget_curve(self.frontier(readout), first)
        return float(area(curve.depth, curve.accuracy, loops))


def _best(readouts: Sequence[Readout], val: _Val) -> list[Readout]:
    """The best signal, the model's own gate, the best fitted gate, as far as there are any."""
    found = []
    for kind in ("signal", "native", "gate"):
        of_kind = [readout for readout in readouts if readout.kind == kind]
        if of_kind:
            found.append(of_kind[0] if len(of_kind) == 1 else max(of_kind, key=val.area))
    return found


def _at_final(readout: Readout, val: _Val) -> Chosen:
    points = val.frontier(readout)
    point = points.least_depth(float(val.correct[:, -1].mean()) - ScoreConfig.slack)
    assert point is not None  # running to the last loop reaches it
    threshold = float(points.threshold[point])
    never = ", where nothing leaves early" if math.isnan(threshold) else ""
    return Chosen(
        readout=readout,
        threshold=threshold,
        said="the least val depth within half a point of the last loop" + never,
    )
