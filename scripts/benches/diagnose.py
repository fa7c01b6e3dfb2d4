"""Full diagnosis of 50,000 test examples x 6 loops, and statistics of a million examples x 8 loops.

1. Seconds of `diagnose` on a store of 50,000 test, 10,000 fit and 10,000 val examples, 512 wide, 23
   classes: all signals, oracles, the learned bound from trees and ridge at 16 prices, comparisons,
   signal quality and 1,000 exact resamples, thresholds chosen again in each.
2. Seconds and peak memory of 10 readouts on a million test and 100,000 val examples x 8 loops:
   frontiers and 1,000 resamples of each, by random blocks of groups. Runs in a process of its own.
   Its spread is set beside the exact bootstrap's.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SPLITS = {"fit": 10_000, "val": 10_000, "test": 50_000}
LOOPS, WIDTH, CLASSES = 6, 512, 23
SECONDS, GIB = 60.0, 4.0
MANY, MANY_VAL, MANY_LOOPS, READOUTS = 1_000_000, 100_000, 8, 10


def run() -> list[dict[str, object]]:
    """Four rows: seconds of both parts, peak GiB and the spread's ratio of the second."""
    seconds = diagnosis_seconds()
    found = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=True
    ).stdout
    many = json.loads(found.splitlines()[-1])
    return [
        _row("diagnose/50k-x-6", seconds, "seconds", SECONDS),
        _row("diagnose/1M-x-8", many["seconds"], "seconds", SECONDS),
        _row("diagnose/1M-x-8-memory", many["gib"], "GiB", GIB),
        _row("diagnose/blocks-over-exact-spread", abs(many["spread"] - 1), "ratio-1", 0.1),
    ]


def _row(name: str, value: float, unit: str, bar: float) -> dict[str, object]:
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "holds": value < bar}


def diagnosis_seconds() -> float:
    """Of one whole diagnosis, the store's making left out."""
    from trajdiag import diagnose

    with tempfile.TemporaryDirectory() as folder:
        store = planted_store(Path(folder) / "planted.zarr")
        start = time.perf_counter()
        diagnose(store, bound=("ridge", "boosted"), cache_dir=folder)
        return time.perf_counter() - start


def planted_store(path: Path):
    """States in which a direction says how far an example is from solved, under noise; logits that
    follow it; one group an example."""
    from trajdiag import from_arrays

    rng = np.random.default_rng(0)
    examples = sum(SPLITS.values())
    margin = (np.arange(1, LOOPS + 1) - rng.gamma(2.0, 1.0, (examples, 1))).astype(np.float32)
    correct = (margin > 0) ^ (rng.random(margin.shape) < 0.03)
    target = rng.integers(0, CLASSES, examples)
    wrong = (target[:, None] + rng.integers(1, CLASSES, margin.shape)) % CLASSES
    predicted = np.where(correct, target[:, None], wrong)
    logits = rng.normal(0, 1, (examples, LOOPS, CLASSES)).astype(np.float32)
    sure = 3 + np.abs(margin) + rng.normal(0, 0.5, margin.shape)
    np.put_along_axis(logits, predicted[..., None], sure[..., None].astype(np.float32), 2)
    hidden = rng.standard_normal((examples, LOOPS, WIDTH), dtype=np.float32)
    hidden += margin[..., None] * rng.standard_normal(WIDTH, dtype=np.float32) / 8
    return from_arrays(
        path,
        hidden,
        logits,
        target,
        gate_logit=(margin + rng.normal(0, 1, margin.shape)).astype(np.float32),
        difficulty=np.round(-margin[:, 0]).clip(0, 8).astype(float),
        split=np.repeat(list(SPLITS), list(SPLITS.values())),
    )


def many_examples() -> dict[str, float]:
    """Seconds, peak GiB, and the blocks' spread over the exact one's."""
    from trajdiag.metrics import bootstrap
    from trajdiag.metrics.bootstrap import Resample
    from trajdiag.readout import Readout
    from trajdiag.scoring.evaluation import Resamples, evaluate
    from trajdiag.scoring.samples import Outcomes, Sample
    from trajdiag.scoring.selection import Targets

    class Stored:
        loops = MANY_LOOPS

        def correct(self, split):
            return correct[split]

    class Planted(Readout):
        def values(self, store, split):
            return signals[split][int(self.name)]

    rng = np.random.default_rng(0)
    signals, correct = {}, {}
    for split, examples in (("val", MANY_VAL), ("test", MANY)):
        margin = np.arange(1, MANY_LOOPS + 1, dtype=np.float32)
        margin = margin - rng.gamma(2.0, 1.5, (examples, 1)).astype(np.float32)
        correct[split] = (margin > 0) ^ (rng.random(margin.shape) < 0.03)
        signals[split] = [
            margin + (0.2 + 0.2 * k) * rng.standard_normal(margin.shape, dtype=np.float32)
            for k in range(READOUTS)
        ]
    start = time.perf_counter()
    samples = {
        split: Sample(store=Stored(), split=split, group=np.arange(len(right)))
        for split, right in correct.items()
    }
    outcomes = Outcomes(store=Stored(), **samples, difficulty=np.full(MANY, np.nan))
    drawn = Resamples(
        val=Resample(samples["val"].group, role="val"), test=Resample(samples["test"].group)
    )
    final = drawn.val.means(samples["val"].correct)[:, -1] - 0.005
    targets = Targets(accuracies=(0.95, 0.98, 0.99), final=final, matched=final)
    evaluations = [
        evaluate(
            Planted(
                name=str(k), kind="signal", direction="high", first_loop=1, unit="", scale="signal"
            ),
            outcomes,
            drawn,
            targets,
        )
        for k in range(READOUTS)
    ]
    seconds = time.perf_counter() - start
    assert len(evaluations) == READOUTS
    column = correct["test"][:, :1]
    blocks = drawn.test.means(column)[1:, 0].std()
    bootstrap.MOST_GROUPS = MANY + 1
    exact = np.concatenate(
        [Resample(samples["test"].group, 100, seed).means(column)[1:, 0] for seed in range(3)]
    ).std()
    return {"seconds": seconds, "gib": _peak(), "spread": float(blocks / exact)}


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    print(json.dumps(many_examples()))
