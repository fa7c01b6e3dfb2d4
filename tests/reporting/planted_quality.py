"""Planted signal quality and reliability."""

from trajdiag.results import QualityRow, ReliabilityRow, Results

LOOPS = 5
BY_LOOP = {"auroc/right": 0.86, "auroc/settled": 0.71, "ece": 0.03}
MEANS = {
    "auprc/right": 0.93,
    "auprc/settled": 0.66,
    "aurc": 0.021,
    "risk@coverage=0.8": 0.013,
    "brier": 0.087,
    "spearman/difficulty": 0.74,
    "spearman-bins/difficulty": 0.98,
    "partial/difficulty": 0.41,
    "exit/difficulty": 0.62,
    "exit/stays-depth": 0.58,
}
PREDICTIONS = {"wasteful": 0.57, "flips": 0.19, "flips/gained": 0.14, "flips/lost": 0.007}


def add_quality(results: Results, store: str) -> None:
    """Rows for every signal and gate of the store that was planted."""
    readouts = [
        row.readout
        for row in results.readouts
        if row.store == store and row.kind in ("signal", "gate", "native")
    ]
    for readout in readouts:
        for metric, value in {**BY_LOOP, **MEANS}.items():
            _row(results, store, readout, None, metric, value)
        for metric, value in BY_LOOP.items():
            for loop in range(1, LOOPS + 1):
                _row(results, store, readout, loop, metric, value + 0.01 * loop)
    _row(results, store, None, None, "overthinking", 0.012)
    _row(results, store, None, None, "overthinking/beyond-luck", 0.004)
    for metric, value in PREDICTIONS.items():
        for loop in (*range(2, LOOPS + 1), None):
            _row(results, store, None, loop, metric, value / (loop or 3))
    for readout in ("top1", "linear-ponder"):
        for loop in range(1, LOOPS + 1):
            for number in range(6):
                sure = 0.5 + 0.09 * number
                results.reliability.append(
                    ReliabilityRow(
                        store=store,
                        readout=readout,
                        loop=loop,
                        bin=number,
                        confidence=sure,
                        accuracy=sure - 0.02 * (5 - loop),
                        n=200,
                        low=sure - 0.02 * (5 - loop) - 0.03,
                        high=sure - 0.02 * (5 - loop) + 0.03,
                    )
                )


def _row(results, store, readout, loop, metric, value) -> None:
    results.quality.append(
        QualityRow(
            store=store,
            readout=readout,
            loop=loop,
            metric=metric,
            value=value,
            low=value - 0.003,
            high=value + 0.003,
        )
    )
