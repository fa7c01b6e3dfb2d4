"""What single names, numbers and colours look like in a report."""

import colorsys
import dataclasses
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from tests.reporting.planted import planted_results
from trajdiag.gates.config import FITTED_KINDS, FitGateConfig
from trajdiag.gates.objectives import LABELLED, OBJECTIVES, UTILITIES
from trajdiag.reporting.board import board
from trajdiag.reporting.markdown import escaped
from trajdiag.reporting.names import metric_label, readout_label, shortened, visible
from trajdiag.reporting.numerals import bracketed, loops, metric_text, p_value, percent, signed
from trajdiag.reporting.palette import (
    GATES,
    PAGE,
    PARTS,
    READOUTS,
    REGRET,
    ROLE_OF_COLOUR,
    ROLES,
    readout_role,
    text_on,
)
from trajdiag.signals.registry import SIGNALS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.9534), "95.3"),
        (percent(-0.021), "−2.1"),
        (percent(-0.0001), "0.0"),
        (percent(None), "–"),
        (loops(1.755), "1.75"),
        (loops(float("nan")), "–"),
        (signed(loops(0.5)), "+0.50"),
        (signed(loops(-0.5)), "−0.50"),
        (signed(loops(0.0)), "0.00"),
        (metric_text("depth@95", 2.5), "2.50"),
        (metric_text("share/early", 0.002), "0.2"),
        (metric_text("n_reached@95", 1.0), "1"),
        (metric_text("spearman", -0.514), "−0.51"),
        (metric_text("swap/total", -0.0123, 2), "−1.23"),
        (metric_text("frozen-fit/depth@matched", 0.5), "0.50"),
        (metric_text("frozen-fit/area", -0.0123), "−1.2"),
        (metric_text("misfit/integrated", 0.0071, 2), "0.71"),
        (metric_text("mean-depth@95", 2.4), "2.40"),
        (metric_text("auroc/right", 0.876), "0.88"),
        (metric_text("brier", 0.0876), "0.0876"),
        (bracketed(0.5, None, loops), "[0.50, not reached]"),
        (bracketed(None, None, loops), ""),
        (p_value(0.0004), "< 0.001"),
        (p_value(0.0416), "0.042"),
    ],
)
def test_numbers_are_printed_in_the_unit_of_their_metric(text, expected):
    assert text == expected


def test_invisible_characters_are_made_visible():
    assert visible("a\u202eb\u200bc\nd") == "a\\u202eb\\u200bc\\u000ad"
    assert visible("Größe 模型") == "Größe 模型"


def test_long_names_keep_both_ends():
    assert shortened("linear-utility-any-later", 13) == "linear…-later"
    assert shortened("entropy", 13) == "entropy"


def test_markdown_cells_cannot_break_their_table_or_open_markup():
    assert escaped("a|b <i> [x](y)") == "a\\|b \\<i\\> \\[x\\](y)"


def test_every_role_has_a_colour_of_its_own():
    assert len(ROLE_OF_COLOUR) == len(ROLES)
    assert len({role.dark for role in ROLES.values()}) == len(ROLES)


def test_every_gate_that_can_be_fitted_has_a_colour_by_its_name():
    configs = [
        FitGateConfig(kind=kind, objective=objective, utility=utility)
        for kind, objective, utility in product(FITTED_KINDS, OBJECTIVES, UTILITIES)
        if kind != "boosted" or objective in LABELLED
    ]
    assert {config.gate_name for config in configs} == GATES.keys()
    assert all(readout_role(name).name == name for name in GATES)


def test_a_gate_that_somebody_named_has_one_of_the_gates_colours_whatever_else_is_there():
    roles = {name: readout_role(name) for name in map("mine-{}".format, range(60))}
    assert {role.name for role in roles.values()} <= GATES.keys()
    assert len({role.name for role in roles.values()}) > len(GATES) / 2
    reports = [planted_results(["a"], examples=60) for _ in range(2)]
    for results, others in zip(reports, (["aa", "zz"], []), strict=True):
        row = next(row for row in results.readouts if row.kind == "gate")
        named = [dataclasses.replace(row, readout=name) for name in [*others, "mine-7"]]
        results.readouts.extend(named)
        assert board(results).roles["mine-7"] is roles["mine-7"]


def test_the_parts_keep_their_order_of_lightness_from_scheme_to_scheme():
    for roles in ([PARTS[p] for p in ("early", "late")], [PARTS["trajectory"], *REGRET.values()]):
        orders = [
            sorted(roles, key=lambda role: luminance(getattr(role, scheme)))
            for scheme in ("light", "dark")
        ]
        assert orders[0][-1] is orders[1][-1]
        assert [orders[0].index(role) for role in orders[1]] == list(range(len(roles))), orders


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_a_readout_leaves_looks_like_no_readout_and_no_part_of_the_attribution(scheme):
    others = [PARTS["early"], PARTS["late"], *READOUTS.values(), *GATES.values()]
    for part in (REGRET["learnable"], REGRET["misfit"]):
        for other in others:
            assert far(getattr(part, scheme), getattr(other, scheme)) > 0.06, (part, other)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_gates_and_the_parts_of_the_attribution_are_told_apart(scheme):
    for part, gate in product((PARTS["early"], PARTS["late"]), GATES.values()):
        assert far(getattr(part, scheme), getattr(gate, scheme)) > 0.03, (part, gate)


def test_text_stands_out_from_paper_in_light_and_in_dark():
    for scheme in ("light", "dark"):
        paper = getattr(PAGE["paper"], scheme)
        assert contrast(getattr(PAGE["ink"], scheme), paper) > 12
        assert contrast(getattr(PAGE["muted"], scheme), paper) > 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_whatever_is_drawn_stands_out_from_paper_but_for_the_rest_of_a_bar(scheme):
    paper = getattr(PAGE["paper"], scheme)
    drawn = READOUTS | GATES | PARTS | REGRET
    pale = {n for n, r in drawn.items() if contrast(getattr(r, scheme), paper) < 3}
    assert pale == {"ok"}


def test_neighbouring_parts_of_the_bar_differ_in_lightness_so_that_no_hue_is_needed():
    for roles in (PARTS.values(), [PARTS["trajectory"], *REGRET.values()]):
        for scheme in ("light", "dark"):
            colours = [getattr(role, scheme) for role in roles]
            assert all(contrast(a, b) > 1.4 for a, b in pairwise(colours))


def test_readouts_of_one_hue_differ_in_lightness_or_dashes():
    for a, b in combinations([*READOUTS.values(), *GATES.values()], 2):
        if abs(hue(a.light) - hue(b.light)) < 0.04:
            assert contrast(a.light, b.light) > 1.25 or a.dash != b.dash, (a, b)


@pytest.mark.parametrize("role", [*(READOUTS | GATES | PARTS | REGRET).values()])
@pytest.mark.parametrize("density", [0.04, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_numbers_stand_out_from_the_cells_that_they_are_printed_in(role, density):
    text = ROLES[text_on(role, density)]
    for scheme in ("light", "dark"):
        paper = rgb(getattr(PAGE["paper"], scheme))
        fill = rgb(getattr(role, scheme))
        mixed = [
            round(255 * (density * f + (1 - density) * p)) for f, p in zip(fill, paper, strict=True)
        ]
        assert contrast(getattr(text, scheme), "#{:02x}{:02x}{:02x}".format(*mixed)) > 4.5


def contrast(a: str, b: str) -> float:
    """WCAG's contrast ratio."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


def far(a: str, b: str) -> float:
    """The distance of two colours in Oklab, in which a hundredth is just seen."""

    def oklab(colour: str) -> np.ndarray:
        channels = np.array(rgb(colour))
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        cones = np.cbrt(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
            @ linear
        )
        return (
            np.array(
                [
                    [0.2104542553, 0.7936177850, -0.0040720468],
                    [1.9779984951, -2.4285922050, 0.4505937099],
                    [0.0259040371, 0.7827717662, -0.8086757660],
                ]
            )
            @ cones
        )

    return float(np.linalg.norm(oklab(a) - oklab(b)))


def hue(colour: str) -> float:
    return colorsys.rgb_to_hsv(*rgb(colour))[0]


def rgb(colour: str) -> tuple[float, float, float]:
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return r, g, b


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("depth@95", "Loops to 95%"),
        ("depth@97.5/quantile-grid", "Loops to 97.5%, quantile grid"),
        ("depth@97.5/test-chosen", "Loops to 97.5%, chosen on test"),
        ("accuracy@depth=3", "Accuracy at mean depth 3, %"),
        ("accuracy@loop=4", "Accuracy of loop 4, %"),
        ("threshold@final", "Threshold at operating point"),
        ("my_own_score", "my_own_score"),
    ],
)
def test_a_score_is_headed_by_words_and_one_that_is_not_known_by_its_name(metric, label):
    assert metric_label(metric) == label


def test_every_readout_is_called_by_what_can_be_typed_or_by_words_that_hold_it():
    own = [*SIGNALS, "linear-ponder", "native-expected", "oracle-stays"]
    assert [readout_label(name) for name in own] == own
    for name in ("native", "fixed", "bound", "oracle"):
        assert name in readout_label(name).split()
