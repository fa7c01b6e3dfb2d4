"""What arXiv 2607.20519 reports, as far as the study has a counterpart.

Depths are loops out of 6, mean and standard deviation over its 3 seeds; None is its n/a.
"""

from dataclasses import dataclass

SOURCE = "arXiv 2607.20519"
LOOPS = 6
"""T."""
TARGETS = (95, 98, 99)

Depth = tuple[float, float | None] | None
"""Mean and standard deviation."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A row of its table of depths."""

    training: str
    readouts: tuple[str, ...]
    """Several where it gives one row to them all."""
    depths: tuple[Depth, Depth, Depth]
    """To reach 95, 98 and 99% accuracy."""


UNIFORM, GEOMETRIC = "fixed-uniform", "fixed-geometric-0.3"
HEADLINE = (
    Headline(training=UNIFORM, readouts=("fixed",), depths=((4.50, 0.71), (6.00, None), None)),
    Headline(
        training=UNIFORM,
        readouts=("entropy", "top1", "logit_margin"),
        depths=((2.19, 0.51), (2.66, 0.44), None),
    ),
    Headline(
        training=GEOMETRIC,
        readouts=("fixed",),
        depths=((2.50, 0.71), (3.50, 0.71), (3.50, 0.71)),
    ),
    Headline(
        training=GEOMETRIC,
        readouts=("logit_margin",),
        depths=((1.38, 0.16), (1.50, 0.16), (1.55, 0.24)),
    ),
    Headline(
        training="linear/uniform", readouts=("native",), depths=((4.49, 0.28), (4.49, 0.28), None)
    ),
    Headline(training="mlp/uniform", readouts=("native",), depths=((4.30, 0.34), None, None)),
    Headline(training="linear/geometric", readouts=("native",), depths=((2.80, 0.30), None, None)),
    Headline(training="mlp/geometric", readouts=("native",), depths=((3.58, 0.36), None, None)),
)
"""`gate/prior` stands for the joint training of the best beta."""


def paper_depths(
    first: tuple[str, str], second: tuple[str, str], target: int
) -> tuple[float, float] | None:
    """The paper's mean loops to a target of two (training, readout); None where one has none."""
    by_place = {(line.training, r): line for line in HEADLINE for r in line.readouts}
    found = [by_place[place].depths[TARGETS.index(target)] for place in (first, second)]
    one, other = found
    return None if one is None or other is None else (one[0], other[0])


ORDERING = {
    UNIFORM: {
        "entropy": 1.00,
        "logit_margin": 1.00,
        "kl_current_previous": 0.80,
        "hidden_displacement": 0.35,
    },
    GEOMETRIC: {
        "entropy": 0.98,
        "logit_margin": 0.98,
        "kl_current_previous": 0.87,
        "hidden_displacement": 0.69,
    },
}
"""Signed Spearman of difficulty and signal over bin means, averaged over loops, by training."""

PARITY = {
    "fixed-uniform": ("top1", 0.996, 1.30),
    "fixed-geometric-0.3": ("top1", 0.990, 1.24),
    "linear-uniform-b0.1": ("native", 0.996, 1.77),
    "mlp-uniform-b0.1": ("native", 0.996, 2.37),
}
"""Readout, accuracy and mean loops by training; of the fixed geometric one the paper's readout is
taken to be top-1 too."""

SPEEDUP = (6.0, 1.26, 1.36)
"""MANO: full depth, mean exit depth, measured speed-up."""
