"""A batch report over 30 stores: its page stays under 3 MB and is built in under 20 seconds.

Both sides run in this process: the stores, 1,200 test examples each, are scored, and a report is
built of as many diagnosed ones. What is built does not depend on how the numbers came about, so
they are a simulation's.
"""

import tempfile
import time
from pathlib import Path

STORES, EXAMPLES = 30, 1200


def run() -> list[dict[str, object]]:
    """Seconds of the report, its page's MB, and its time by that of scoring alone."""
    import numpy as np

    from tests.reporting.planted import planted_results
    from tests.trajectories import planted, solved_from
    from trajdiag.reporting.folder import report_files
    from trajdiag.scoring.stores import score

    names = [f"mano-{'joint' if i % 2 else 'fixed'}-uniform-seed-{i}" for i in range(STORES)]
    results = planted_results(names, EXAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        stores = []
        for name in names:
            right = solved_from(rng.integers(1, 6, 3 * EXAMPLES), 5)
            stores.append(planted(Path(folder) / f"{name}.zarr", right, seed=1))
        start = time.perf_counter()
        score(stores)
        scoring = time.perf_counter() - start
    start = time.perf_counter()
    files = report_files(results, "30 stores")
    seconds = time.perf_counter() - start
    size = len(files["report.html"].encode()) / 1e6
    return [
        _row("report/30-stores", seconds, "seconds", 20.0),
        _row("report/30-stores-page", size, "MB", 3.0),
        _row("report/by-scoring", seconds / scoring, "x", 1.0),
    ]


def _row(name: str, value: float, unit: str, bar: float) -> dict[str, object]:
    return {"name": name, "value": round(value, 2), "unit": unit, "bar": bar, "holds": value < bar}
