"""Planted samples of examples."""

from trajdiag.results import ExampleRow, Results

LOOPS = 5
VERDICTS = {"early": 1, "late": 5, "trajectory": 5, "ok": 4}
"""Each verdict, and a loop at which such an example leaves."""
RIGHT = {"early": (2, 3, 4, 5), "late": (2, 3), "trajectory": (), "ok": (3, 4, 5)}
"""The loops at which it is right."""


def add_examples(
    results: Results,
    store: str,
    count: int = 12,
    prompt: str = "+ 3 * 2 {}",
    names: tuple[str, ...] | None = None,
) -> None:
    """Examples of every verdict, two readouts each; `names` are those of the classes."""
    readouts = ("native" if "joint" in store else "entropy", "top1")
    for number in range(count):
        verdict = list(VERDICTS)[number % len(VERDICTS)]
        for readout in readouts:
            predictions = [4 if t in RIGHT[verdict] else 1 for t in range(1, LOOPS + 1)]
            results.examples.append(
                ExampleRow(
                    store=store,
                    example=f"test-{number}",
                    readout=readout,
                    verdict=verdict,
                    leaves=VERDICTS[verdict],
                    target=4,
                    predictions=predictions,
                    target_name=names and names[4],
                    prediction_names=names and [names[p] for p in predictions],
                    values=[None, *(0.125 * number + t for t in range(2, LOOPS + 1))],
                    difficulty=float(1 + number % 3),
                    input=prompt.replace("{}", f"{number}"),
                )
            )
