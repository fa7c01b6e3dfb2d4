"""The report's colours: one role, one colour on light paper and one on dark.

Hues are Okabe and Ito's (colour-blind safe) and stand for families: confidence is blue, change of
the prediction green, change of the state purple, gates vermilion, the learned bound olive, what
needs no signal grey, from fixed depths to hindsight. Within a family, lightness and dashes tell
readouts apart. A readout's colour follows from its name alone, so that it is the same in every
figure of every report; of gates that somebody named, two may have one colour. The parts of regret
are slate and violet, those of the attribution slate, brown and amber; which part is darker than
which is the same on light paper and on dark, so that readers in different schemes mean the same by
"the darker part". Whatever is drawn stands out from the paper by 3:1 at least, and text by 4.5:1,
as WCAG 2.2 asks, light and dark; rules, grids and the rest of a bar (`faint`, `ok`) need not."""

from dataclasses import dataclass
from zlib import crc32

Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class Role:
    """A named colour; `light` is unique among the roles, so that a drawn colour names its role."""

    name: str
    light: str
    dark: str
    dash: Dash = "-"
    """matplotlib line style of a readout's curve."""


def _roles(*rows: tuple[str, str, str] | tuple[str, str, str, Dash]) -> dict[str, Role]:
    return {
        row[0]: Role(name=row[0], light=row[1], dark=row[2], dash=row[3] if len(row) > 3 else "-")
        for row in rows
    }


PAGE = _roles(
    ("paper", "#ffffff", "#0d1117"),
    ("ink", "#1b1f24", "#e6edf3"),
    ("muted", "#59636e", "#9aa4ae"),
    ("faint", "#dde2e7", "#2c333b"),
    ("on-pale", "#000001", "#fffffd"),
    ("on-deep", "#fffffd", "#000001"),
    ("always-dark", "#000002", "#000002"),
    ("always-bright", "#fffffe", "#fffffe"),
)
"""Page, text, secondary text, rules and grids; then text on fills: on what is near paper, or far
from it, and on what is pale, or deep, in both schemes."""

PARTS = _roles(
    ("ok", "#e4e8ec", "#2a3139"),
    ("early", "#7a5200", "#9a7420"),
    ("late", "#bf8400", "#e3b341"),
    ("trajectory", "#3d4a66", "#5f729e"),
)
"""The attribution's parts, in the order of the bar: the trajectory's share, the same for every
readout of a store, lies flush with the right end."""

REGRET = _roles(
    ("unexposed", "#7189b5", "#a9b8d6"),
    ("learnable", "#522a92", "#7f5bc6"),
    ("misfit", "#8f78df", "#b9a9fe"),
)
"""The parts of regret beside the trajectory's, which has the attribution's colour: blue for what
the states lack, violet for what the readout does."""

READOUTS = _roles(
    ("entropy", "#0072b2", "#58b0ee"),
    ("top1", "#3f95d1", "#8ccbf7", (0, (6, 1.5))),
    ("logit_margin", "#00507f", "#2f86c4", (0, (6, 1.5, 1, 1.5))),
    ("probability_margin", "#4b93c4", "#b9def8", (0, (3, 1))),
    ("energy", "#2a6f9e", "#6fb0d8", (0, (1, 1))),
    ("entropy_change", "#008a80", "#1fb5a8", (0, (8, 2))),
    ("kl_current_previous", "#009e73", "#2fc79a"),
    ("kl_previous_current", "#2f9d7a", "#58dbb3", (0, (3, 1))),
    ("min_p_kl", "#1f7f63", "#27a87f", (0, (1, 1))),
    ("js", "#4f9a80", "#a9e8d3", (0, (2, 1))),
    ("logit_change", "#3a8f70", "#8fdcc0", (0, (6, 1.5))),
    ("argmax_stability", "#00664a", "#149c75", (0, (6, 1.5, 1, 1.5))),
    ("vote_share", "#5f9e3f", "#8bc96a", (0, (6, 1, 1, 1, 1, 1))),
    ("hidden_displacement", "#a8487f", "#de8fbb"),
    ("relative_change", "#cc79a7", "#efb6d4", (0, (6, 1.5))),
    ("hidden_cosine", "#74264f", "#b9608f", (0, (6, 1.5, 1, 1.5))),
    ("acceleration", "#8f3c8a", "#cf7ccb", (0, (3, 1))),
    ("acceleration_twice", "#b873b4", "#e6abe3", (0, (1, 1))),
    ("native", "#d55e00", "#ff8a3d"),
    ("native-released", "#d9732a", "#ffa66b", (0, (2, 1))),
    ("native-continuation", "#b34f00", "#f0762a", (0, (8, 2))),
    ("native-expected", "#cf7a3c", "#ffc08f", (0, (1, 1))),
    ("bound", "#7a6a00", "#d8c24a"),
    ("fixed", "#838b94", "#7d8792"),
    ("oracle", "#1b1f25", "#e6edf4"),
    ("oracle-stays", "#343a42", "#cfd6de", (0, (6, 1.5))),
    ("oracle-loss", "#4a525c", "#b8c0c9", (0, (3, 1))),
    ("oracle-saturation", "#5f6873", "#a3abb5", (0, (1, 2))),
)
"""Readouts with a colour of their own."""

GATES = _roles(
    ("linear-ponder", "#a55807", "#f68e33", (0, (6, 1.5))),
    ("linear-next", "#5d3004", "#b86205", (0, (6, 1.5, 1, 1.5))),
    ("linear-previous", "#814302", "#db7504", (0, (4, 1, 1, 1, 1, 1))),
    ("linear-any-later", "#cc6d02", "#ffb279", (0, (3, 1))),
    ("linear-correctness", "#924d09", "#e88221", (0, (6, 1, 1, 1, 1, 1))),
    ("linear-agreement", "#6f3903", "#c86c0c", (0, (2, 2))),
    ("linear-depth", "#b86205", "#fd9f54", (0, (8, 1, 3, 1))),
    ("mlp-ponder", "#770500", "#d93828", (0, (6, 1.5))),
    ("mlp-next", "#b71103", "#fe6a56", (0, (6, 1.5, 1, 1.5))),
    ("mlp-previous", "#d93828", "#fe9a89", (0, (4, 1, 1, 1, 1, 1))),
    ("mlp-any-later", "#a20a01", "#f65542", (0, (3, 1))),
    ("mlp-correctness", "#e94937", "#feaea1", (0, (6, 1, 1, 1, 1, 1))),
    ("mlp-agreement", "#c92516", "#fe8471", (0, (2, 2))),
    ("mlp-depth", "#8b0a02", "#e74735", (0, (8, 1, 3, 1))),
    ("boosted-next", "#a26c5a", "#e4a995", (0, (6, 1.5, 1, 1.5))),
    ("boosted-previous", "#5e2e1d", "#a26c5a", (0, (4, 1, 1, 1, 1, 1))),
    ("boosted-any-later", "#945f4d", "#d69d89", (0, (3, 1))),
    ("boosted-correctness", "#6b3a29", "#af7865", (0, (6, 1, 1, 1, 1, 1))),
    ("boosted-agreement", "#b17a67", "#f1b6a1", (0, (2, 2))),
    ("boosted-depth", "#865341", "#c9907d", (0, (8, 1, 3, 1))),
)
"""Every kind and objective of gate that can be fitted, by the name that it has by default: the kind
has the shade of the hue, the objective the lightness and the dashes."""

ROLES: dict[str, Role] = PAGE | PARTS | REGRET | READOUTS | GATES
ROLE_OF_COLOUR = {role.light: name for name, role in ROLES.items()}


def light(role: str) -> str:
    """The role's colour on light paper, as drawn."""
    return ROLES[role].light


def readout_role(name: str) -> Role:
    """The role of a readout, by its name alone. One that is not known here is a gate or a signal
    that somebody named, and has a gate's, by its checksum: two such names may share one."""
    known = READOUTS.get(name) or GATES.get(name)
    return known or list(GATES.values())[crc32(name.encode()) % len(GATES)]


def text_on(role: Role, density: float = 1.0) -> str:
    """The role of a text that stands out from this much of `role` on paper, light or dark."""
    dark_on_light = _luminance(role.light, "#ffffff", density) > _MIDDLE
    dark_on_dark = _luminance(role.dark, PAGE["paper"].dark, density) > _MIDDLE
    if dark_on_light:
        return "always-dark" if dark_on_dark else "on-pale"
    return "on-deep" if dark_on_dark else "always-bright"


_MIDDLE = 0.18
"""The luminance that black and white stand out from alike, sqrt(1.05 * 0.05) - 0.05."""


def _luminance(colour: str, paper: str, density: float) -> float:
    """WCAG's relative luminance of `colour`, at this density, over `paper`."""
    channels = [
        (density * int(colour[i : i + 2], 16) + (1 - density) * int(paper[i : i + 2], 16)) / 255
        for i in (1, 3, 5)
    ]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
