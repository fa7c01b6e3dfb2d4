"""The report's colours: one role, one colour on light paper and one on dark.

Hues are Okabe and Ito's (colour-blind safe) and stand for families: confidence is blue, change of
the prediction green, change of the state purple, gates vermilion. Within a family, lightness and
dashes tell readouts apart, so a readout keeps its colour in every figure of every report."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Role:
    """A named colour; `light` is unique among the roles, so that a drawn colour names its role."""

    name: str
    light: str
    dark: str
    dash: str = "-"
    """matplotlib line style of a readout's curve."""


def _roles(*rows: tuple[str, ...]) -> dict[str, Role]:
    return {
        name: Role(name=name, light=light, dark=dark, dash=dash[0] if dash else "-")
        for name, light, dark, *dash in rows
    }


PAGE = _roles(
    ("paper", "#ffffff", "#0d1117"),
    ("ink", "#1b1f24", "#e6edf3"),
    ("muted", "#59636e", "#9aa4ae"),
    ("faint", "#dde2e7", "#2c333b"),
)
"""Page, text, secondary text, rules and grids."""

PARTS = _roles(
    ("ok", "#e4e8ec", "#2a3139"),
    ("early", "#d39a00", "#e3b341"),
    ("late", "#f0d27e", "#8a6a1c"),
    ("trajectory", "#3d4a66", "#a9b8d6"),
)
"""The attribution's parts, in the order of the bar: the trajectory's share, the same for every
readout of a store, lies flush with the right end."""

READOUTS = _roles(
    ("entropy", "#0072b2", "#58b0ee"),
    ("top1", "#3f95d1", "#8ccbf7", "--"),
    ("logit_margin", "#00507f", "#2f86c4", "-."),
    ("probability_margin", "#6fb9e8", "#b9def8", ":"),
    ("predictive_kl", "#009e73", "#2fc79a"),
    ("logit_change", "#5cbf9b", "#8fdcc0", "--"),
    ("argmax_stability", "#00664a", "#149c75", "-."),
    ("hidden_displacement", "#a8487f", "#de8fbb"),
    ("relative_change", "#cc79a7", "#efb6d4", "--"),
    ("hidden_cosine", "#74264f", "#b9608f", "-."),
    ("native", "#d55e00", "#ff8a3d"),
    ("fixed", "#838b94", "#7d8792"),
    ("oracle", "#1b1f25", "#e6edf4"),
)
"""Readouts with a colour of their own."""

GATES = _roles(
    ("gate-1", "#a84300", "#ffb27a", "--"),
    ("gate-2", "#ee8d4f", "#e0702a", "-."),
    ("gate-3", "#7d3200", "#ffd0ac", ":"),
    ("gate-4", "#f4b58c", "#b85a1f", (0, (6, 1, 1, 1, 1, 1))),  # type: ignore[arg-type]
)
"""Taken in turn by fitted gates, in the order of their names."""

ROLES: dict[str, Role] = PAGE | PARTS | READOUTS | GATES
ROLE_OF_COLOUR = {role.light: name for name, role in ROLES.items()}


def light(role: str) -> str:
    """The role's colour on light paper, as drawn."""
    return ROLES[role].light


def readout_roles(names: list[str]) -> dict[str, Role]:
    """The role of each readout of a report; names that are not known here are fitted gates."""
    fitted = sorted(set(names) - READOUTS.keys())
    gates = list(GATES.values())
    own = {name: gates[i % len(gates)] for i, name in enumerate(fitted)}
    return {name: READOUTS.get(name) or own[name] for name in names}
