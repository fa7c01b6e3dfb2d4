"""A study whose numbers are chosen, so that what is said of them is known."""

from typing import Any

from studies.settings import SIX, Setting

Entry = list[Any]


def spread(value: float | None, reached: int, by: float = 0.01) -> list[float | None]:
    """Three seeds about a value, on each value's own pattern; the last ones may have none."""
    if value is None:
        return [None] * 3
    turn = 7.3 * value % 1
    return [value - by, value + by, value + by * turn][:reached] + [None] * (3 - reached)


def drawn(value: float | None, low: float | None, high: float | None, reached: int = 3) -> Entry:
    return [value, low, high, "interval", spread(value, reached)]


def ranged(value: float | None, low: float | None, high: float | None, reached: int = 3) -> Entry:
    return [value, low, high, "range", spread(value, reached)]


def setting(task: str, of: Setting) -> dict[str, Any]:
    joint = of.objective == "joint"
    return {
        "task": task,
        "setting": of.name,
        "objective": of.objective,
        "prior": of.prior,
        "gate": of.gate if joint else None,
        "lam": of.lam if of.prior == "geometric" else None,
        "beta": of.beta if joint else None,
        "six": task == "mano",
        "seeds": 3,
        "finished": 3,
    }


def readouts(area: float, depth: Entry, own: bool) -> dict[str, dict[str, Entry]]:
    """What one setting has: confidence at `area`, which reaches 95% at `depth`, fixed depth that
    reaches it at 4 loops, and a native gate that is a tenth behind."""
    found = {
        "entropy": {
            "area": drawn(area, area - 0.01, area + 0.01),
            "area/val": ranged(area, area, area),
            "depth@95": depth,
            "depth@95/if-reached": ranged(2.0, 1.9, 2.1),
            "depth@95/test-chosen": ranged(1.8, 1.7, 1.9),
            "accuracy@95": ranged(0.949, 0.947, 0.951),
            "depth@final": drawn(2.0, 1.9, 2.1),
            "ordering": [0.6, 0.1, 1.0, "range", [0.1, 0.7, 1.0]],
            **{f"accuracy@depth={t}": ranged(0.8 + 0.03 * t, 0.8, 1.0) for t in range(1, 6)},
        },
        "hidden_displacement": {"ordering": ranged(0.4, 0.3, 0.85)},
        "fixed": {
            "depth@95": drawn(4.0, 3.9, 4.1),
            "depth@98": drawn(4.0, None, None, 2),
            "depth@95/if-reached": ranged(4.0, 4.0, 4.0),
            "depth@98/if-reached": ranged(4.0, 4.0, 4.0, 2),
            "final_accuracy": ranged(0.96, 0.95, 0.97),
            **{f"accuracy@loop={t}": ranged(0.7 + 0.05 * t, 0.7, 1.0) for t in range(1, 6)},
        },
        "oracle": {"area": drawn(0.99, 0.98, 1.0), "area/by-luck": ranged(0.9, 0.9, 0.9)},
        "oracle-stays": {"area": drawn(0.97, 0.96, 0.98)},
    }
    if own:
        behind = area - 0.1
        parts = ("trajectory_regret", "unexposed", "learnable", "misfit")
        found["native"] = {
            "area": drawn(behind, behind - 0.01, behind + 0.01),
            "area/val": ranged(behind, behind, behind),
            "depth@95": drawn(None, None, None, 0),
            "depth@final": drawn(3.0, 2.9, 3.1),
            "commonest-exit": ranged(0.5, 0.4, 0.6),
            "modal-exit": ranged(0.6, 0.5, 0.7),
            "modal-exit@0.5": ranged(0.7, 0.6, 0.8),
            **{f"{part}/integrated": drawn(0.025, 0.02, 0.03) for part in parts},
            "regret/integrated": drawn(0.1, 0.09, 0.11),
        }
        found["mlp-ponder"] = {
            "area": drawn(behind, behind - 0.01, behind + 0.01),
            "area/less-native": [0.002, 0.001, 0.003, "range", [0.002, 0.001, 0.003]],
        }
    return found


def study() -> dict[str, Any]:
    settings, numbers, curves = {}, {}, {}
    for task in ("mano", "parity"):
        for each in SIX:
            key = f"{task}/{each.name}"
            settings[key] = setting(task, each)
            depth = drawn(2.0, 1.9, 2.1)
            numbers[key] = readouts(0.9, depth, own=each.objective == "joint")
            curves[key] = {"entropy": [0.7 + 0.005 * i for i in range(41)]}
    size = {
        "loops": 5,
        "layers": 1,
        "d_model": 64,
        "heads": 4,
        "feed_forward": 128,
        "steps": 100,
        "batch": 10,
        "lr": 0.1,
        "dense": True,
        "curriculum": True,
        "harder_rows": True,
        "precision": "fp32",
        "min_difficulty": 1,
        "max_difficulty": 3,
        "examples": {"fit": 10, "val": 20, "test": 30},
    }
    codes = ("gate-collapsed", "overthinking", "misordered", "trajectory-bound", "chance")
    return {
        "scale": "planted",
        "about": "",
        "sizes": {"mano": {**size, "modulus": 7}, "parity": size},
        "settings": settings,
        "references": {"mano": "mano-fixed-geometric-0.3-s1", "parity": None},
        "failed": {},
        "findings": {code: {} for code in codes},
        "numbers": numbers,
        "curves": curves,
        "timings": {"live": [], "cpu_seconds": {}},
    }
