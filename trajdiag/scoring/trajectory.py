"""What a store's trajectories do by themselves, whatever reads them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.difficulty import Bins, mean_of_sums, sums_by_bin
from trajdiag.metrics.points import Points
from trajdiag.ray_cluster import Launcher
from trajdiag.readout import oracles
from trajdiag.scoring.evaluation import Resamples
from trajdiag.scoring.hindsight import policies
from trajdiag.scoring.parts import means_over, over_parts
from trajdiag.scoring.samples import Outcomes, Sample, of_part
from trajdiag.store.schema import ACCURACIES


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """Its loops' accuracies, and what hindsight makes of them."""

    final: Estimate
    """Test accuracy of each loop, [row, loop]."""
    val_final: Estimate
    """Val accuracy of each loop, [row, loop]."""
    by_score: Mapping[str, Estimate]
    """Test accuracy by each score of continuations, by lm-evaluation-harness's names."""
    by_bin: NDArray[np.float64]
    """Test accuracy by bin of difficulty, [bin, loop]."""
    hindsight: Mapping[str, Points]
    """The policies of each oracle."""


def trajectory(outcomes: Outcomes, resamples: Resamples, launcher: Launcher) -> Trajectory:
    """One pass over val, two over test."""
    names = [readout.name for readout in oracles()]
    scores = outcomes.store.score_names
    width = outcomes.test.loops
    val, test = (
        np.split(means, means.shape[1] // width, axis=1)
        for means in (
            means_over(_Columns(names, ()), outcomes.val, resamples.val, launcher),
            means_over(_Columns(names, scores), outcomes.test, resamples.test, launcher),
        )
    )
    (by_bin,) = over_parts(_Accuracies(outcomes.bins), outcomes.test, launcher)
    hindsight = {
        name: Points(
            val_depth=val[1 + 2 * i],
            val_accuracy=val[2 + 2 * i],
            depth=test[1 + 2 * i],
            accuracy=test[2 + 2 * i],
        )
        for i, name in enumerate(names)
    }
    return Trajectory(
        final=test[0],
        val_final=val[0],
        by_score={
            ACCURACIES[score]: means
            for score, means in zip(scores, test[1 + 2 * len(names) :], strict=True)
        },
        by_bin=mean_of_sums(by_bin),
        hindsight=hindsight,
    )


@dataclass(frozen=True)
class _Columns:
    """[example, column]: right at each loop; of each oracle exit loops and right answers by policy;
    right at each loop by each score."""

    oracles: Sequence[str]
    scores: Sequence[str]

    def __call__(self, part: Sample) -> NDArray[np.int16]:
        columns = [part.correct, *(x for name in self.oracles for x in policies(name, part))]
        columns += [part.store.correct(part.split, score) for score in self.scores]
        return np.concatenate(columns, axis=1, dtype=np.int16)


@dataclass(frozen=True)
class _Accuracies:
    """Right answers at each loop, and examples, by bin of difficulty."""

    bins: Bins

    def __call__(self, part: Sample, at: slice) -> Sequence[NDArray[np.float64]]:
        return [sums_by_bin(part.correct, of_part(self.bins, at))]
