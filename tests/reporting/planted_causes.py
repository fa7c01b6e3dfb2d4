"""Planted parts of regret, paired differences and replicas."""

from trajdiag.results import ComparisonRow, DiagnosisRow, LatencyRow, ReplicaRow, Results

REGRET = {
    "trajectory_regret": (0.021, 0.005),
    "unexposed": (0.0124, 0.002),
    "learnable": (-0.0018, 0.0015),
    "misfit": (0.0073, 0.003),
}
"""Value and half its interval, in accuracy."""


def add_causes(results: Results, store: str, reference: str | None) -> None:
    """Regret of every deployable readout that was planted, and, with a reference, comparisons."""
    kinds = {row.readout: row.kind for row in results.readouts if row.store == store}
    for number, (readout, kind) in enumerate(kinds.items()):
        if kind in ("signal", "gate", "native"):
            for at, scale in (("integrated", 1.0), ("matched", 0.7), ("accuracy", 26.0)):
                add_regret(results, store, reference, readout, at, scale * (1 + 0.05 * number))
    if reference is not None:
        _compare(results, store, reference)
        _replicas(results, f"{reference} + {store}")


def add_regret(results, store, reference, readout, at, scale) -> None:
    """One split: parts that sum to the regret, and lucky beside."""
    parts = {p: v for p, v in REGRET.items() if reference or p != "trajectory_regret"}
    whole = sum(value for value, _ in parts.values())
    for part, (value, half) in {**parts, "regret": (whole, 0.006), "lucky": (0.004, 0.001)}.items():
        results.diagnosis.append(
            DiagnosisRow(
                store=store,
                reference=reference,
                readout=readout,
                at=at,
                depth=2.3 if at == "matched" else None,
                part=part,
                value=scale * value,
                low=scale * (value - half),
                high=scale * (value + half),
            )
        )


def _compare(results: Results, store: str, reference: str) -> None:
    pairs = [("entropy", "entropy"), ("mlp-ponder", "mlp-ponder")]
    pairs += [("native", "entropy")] if "joint" in store else []
    for readout, other in pairs:
        for metric, value, half, p in (
            ("area", -0.021, 0.004, 0.0004),
            ("depth@matched", 0.58, 0.06, 0.0004),
            ("accuracy@matched", -0.001, 0.004, 0.61),
            ("accuracy@equal-depth", -0.011, 0.0105, 0.04),
            ("share/early", 0.002, 0.003, 0.19),
            ("share/late", 0.0, 0.0, 1.0),
            ("share/trajectory", 0.004, 0.003, 0.008),
        ):
            _difference(results, (store, readout, reference, other), metric, value, half, p)
    swapped = (store, "linear-ponder", reference, "entropy")
    for metric, value, half, p in (
        ("swap/total", -0.027, 0.004, 0.0004),
        ("swap/trajectory", -0.021, 0.004, 0.0004),
        ("swap/readout", -0.006, 0.003, 0.002),
        ("swap/interaction", 0.001, 0.002, 0.4),
    ):
        _difference(results, swapped, metric, value, half, p)
    fresh = (store, "linear-ponder", reference, "linear-ponder")
    _difference(results, fresh, "frozen-fit/area", -0.019, 0.004, 0.0004)
    _difference(results, fresh, "frozen-fit/depth@matched", 0.49, 0.06, 0.0004)


def _difference(results, pair, metric, value, half, p) -> None:
    store, readout, reference, other = pair
    results.comparisons.append(
        ComparisonRow(
            store=store,
            readout=readout,
            reference=reference,
            reference_readout=other,
            metric=metric,
            value=value,
            low=value - half,
            high=value + half,
            paired=True,
            p=p,
            p_adjusted=min(1.0, 3 * p),
        )
    )


def _replicas(results: Results, stores: str) -> None:
    for readout in ("entropy", "native", "fixed"):
        for metric, value, low, high, reached in (
            ("area", 0.953, 0.944, 0.961, 2),
            ("depth@95", 2.21, 1.9, None, 2),
            ("mean-depth@95", 2.4, 2.1, 2.7, 2),
            ("depth@98", None, 3.1, None, 0),
            ("misfit/integrated", 0.0071, 0.004, 0.011, 2),
        ):
            results.replicas.append(
                ReplicaRow(
                    replicas=stores,
                    readout=readout,
                    metric=metric,
                    value=value,
                    low=low,
                    high=high,
                    n_reached=reached,
                    n=2,
                )
            )


def add_latency(results: Results, store: str) -> None:
    """One readout, run live in batches and one example at a time."""
    for batch, speedup in (("batched", 1.77), ("one", 0.63)):
        for metric, value, low, high, unit in (
            ("depth", 2.471, None, None, "loops"),
            ("accuracy", 0.942, None, None, "share"),
            ("accuracy/full", 0.95, None, None, "share"),
            ("speedup", speedup, speedup - 0.1, speedup + 0.1, "ratio"),
            ("speedup/ideal", 2.0235, None, None, "ratio"),
            ("lost/fixed", 0.026, 0.02, 0.03, "share of full"),
            ("lost/readout", 0.069, 0.06, 0.07, "share of full"),
            ("lost/rows", 0.012, 0.012, 0.012, "share of full"),
            ("lost/rest", -0.024, -0.03, -0.02, "share of full"),
            ("cost/loop", 0.0452, 0.04, 0.05, "ms"),
            ("flops/full", 2.9e6, None, None, "FLOPs"),
            ("flops/live", 1.45e6, None, None, "FLOPs"),
            ("differing/depth", 3, None, None, "examples"),
        ):
            results.latency.append(
                LatencyRow(
                    store=store,
                    readout="top1",
                    threshold=0.973,
                    context="full",
                    batch=batch,
                    device="cpu, 1 thread",
                    metric=metric,
                    value=value,
                    low=low,
                    high=high,
                    unit=unit,
                    n=2000,
                )
            )


def add_contexts(results: Results, store: str) -> None:
    """The same readout, decoded token by token."""
    for context, agreement, speedup in (
        ("full-cached", 0.981, 0.97),
        ("recompute", 0.981, 1.21),
        ("copy-last", 0.934, 1.88),
    ):
        for metric, value, unit in (
            ("depth", 2.471, "loops"),
            ("accuracy", 0.942, "share"),
            ("accuracy/full", 0.95, "share"),
            ("agreement", agreement, "share"),
            ("speedup", speedup, "ratio"),
            ("speedup/ideal", 2.0235, "ratio"),
            ("loops-run", 3.25, "loops"),
            ("live", 0.4321, "ms"),
            ("differing/depth", 3, "examples"),
            ("differing/prediction", 1234, "examples"),
        ):
            results.latency.append(
                LatencyRow(
                    store=store,
                    readout="top1",
                    threshold=0.973,
                    context=context,
                    batch="batched",
                    device="cpu, 1 thread",
                    metric=metric,
                    value=value,
                    low=value - 0.1 if metric == "speedup" else None,
                    high=value + 0.1 if metric == "speedup" else None,
                    unit=unit,
                    n=2000,
                )
            )
