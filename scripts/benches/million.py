"""A million examples, 8 loops of 64 numbers: time grows as they do, memory stays below 4 GiB.

Each command runs in a process of its own on 100,000 and on 1,000,000 examples, less what it takes
whatever their number: of a gate, one pass over 100 examples, since a pass has 64 steps at least; of
scoring, 7,000 examples, whose 2,100 test inputs are as many to resample as the bootstrap's random
blocks of any larger sample. Ratios are of processor time; a gate is fitted in as many passes over
both.
"""

import tempfile
from pathlib import Path

SMALL, LARGE = 100_000, 1_000_000
FEW = {"score": 7_000, "fit-gate": 100}
GIB = 4.0
PASSES, ONE_PASS = ("--epochs", "10", "--patience", "10"), ("--epochs", "1")
COMMANDS = {
    "score": ("score", (), ()),
    "score-streamed": ("score", (), ("--memory", "0.01")),
    "linear": ("fit-gate", ("--kind", "linear"), PASSES),
    "mlp": ("fit-gate", ("--kind", "mlp"), PASSES),
}


def run() -> list[dict[str, object]]:
    """Two rows a command: the ratio of times, and peak memory."""
    from tests.million import cost_of, make

    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for examples in (*FEW.values(), SMALL, LARGE):
            make(root, examples)
        for name, (verb, kind, options) in COMMANDS.items():
            few, small, large = (
                cost_of(root, verb, f"made-{examples}", *kind, *_passes(options, examples))
                for examples in (FEW[verb], SMALL, LARGE)
            )
            start = few.cpu_seconds
            ratio = (large.cpu_seconds - start) / (small.cpu_seconds - start)
            rows += [
                {
                    "name": f"million/{name}-time-ratio",
                    "value": round(ratio, 2),
                    "unit": "x",
                    "bar": 12.0,
                    "holds": ratio <= 12.0,
                    "seconds": round(large.seconds, 1),
                },
                {
                    "name": f"million/{name}-peak",
                    "value": round(large.gib, 2),
                    "unit": "GiB",
                    "bar": GIB,
                    "holds": large.gib <= GIB,
                },
            ]
    return rows


def _passes(options: tuple[str, ...], examples: int) -> tuple[str, ...]:
    return ONE_PASS if options == PASSES and examples == FEW["fit-gate"] else options
