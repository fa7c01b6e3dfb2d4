"""Every readout that a store can have: what its values are, and which mean ready to stop."""

from dataclasses import dataclass
from typing import Literal, get_args

from trajdiag.signals.registry import SIGNALS

NATIVE, FIXED, ORACLE, BOUND = "native", "fixed", "oracle", "bound"
RELEASED = "native-released"
"""The model's own gate by the rule of Ouro's released code, in the checkpoint's dtype."""
CONTINUATION = "native-continuation"
"""The model's own gate, its logit averaged over the positions that score the continuations."""
EXPECTED = "native-expected"
"""The model's own gate, read as the exit depth that it expects once it has seen every loop."""
ORACLE_STAYS, ORACLE_LOSS, ORACLE_SATURATION = "oracle-stays", "oracle-loss", "oracle-saturation"
ORACLES = (ORACLE, ORACLE_STAYS, ORACLE_LOSS, ORACLE_SATURATION)

Direction = Literal["high", "low"]
RuleKind = Literal["signal", "native", "variant", "gate", "fixed"]
"""The kinds of readouts that are rules, not limits of what a rule can do."""
Kind = Literal[RuleKind, "bound", "oracle"]
Scale = Literal["signal", "hazard", "logit", "loop", "loops", "cdf"]
"""Whether values are a signal, a cumulative hazard, a probability's logit, the loop's number, a
number of loops, or a cumulative probability."""

NO_RULES = f"Hindsight is no rule, nor is {EXPECTED}, which reads the gate at later loops"


def deployable(kind: Kind, name: str) -> bool:
    """Whether the readout is a causal rule, which can stop a model that runs."""
    return kind in get_args(RuleKind) and name != EXPECTED


@dataclass(frozen=True, kw_only=True)
class ReadoutEntry:
    """What one readout, or one family of fitted gates, is."""

    name: str
    """Of a family of fitted gates: KIND or OBJECTIVE stands for what else it was fitted with."""
    kind: Kind
    direction: Direction | None
    """Which values mean ready to stop; None where it is hindsight, or for a gate's objective to
    say."""
    first_loop: int
    """The first loop at which it can stop."""
    scale: Scale
    """Of a family of fitted gates: where their objective does not say, the hazard."""
    formula: str
    """What its values are; q: the gate's exit distribution, e: its hazard, CE: cross-entropy."""
    reference: str

    @property
    def stops(self) -> str:
        """When it stops, in words."""
        if self.direction is None:
            return "in hindsight" if self.kind == "oracle" else "as its objective says"
        return f"stops when {self.direction}, from loop {self.first_loop}"


_PAPER = "Adaptive Depth in Looped Transformers, arXiv 2607.20519"
_PONDERNET = "PonderNet, arXiv 2107.05407"
_OURO = "Ouro, arXiv 2510.25741"
_CALM = "CALM, arXiv 2207.07061"
_OVERTHINKING = "Shallow-Deep Networks, arXiv 1810.07052"


def _entry(
    kind: Kind,
    name: str,
    formula: str,
    reference: str,
    *,
    direction: Direction | None = "high",
    first_loop: int = 1,
    scale: Scale = "hazard",
) -> ReadoutEntry:
    return ReadoutEntry(
        name=name,
        kind=kind,
        direction=direction,
        first_loop=first_loop,
        scale=scale,
        formula=formula,
        reference=reference,
    )


_OF_SIGNALS = [
    _entry(
        "signal",
        signal.name,
        signal.formula,
        signal.reference,
        direction=signal.direction,
        first_loop=signal.first_loop,
        scale="signal",
    )
    for signal in SIGNALS.values()
]

_OF_THE_MODEL = [
    _entry(
        "native",
        NATIVE,
        "the model's own gate: -log(1 - CDF_t) with CDF_t = q_1 + ... + q_t, exactly",
        f"{_PAPER}; {_PONDERNET}",
    ),
    _entry(
        "variant",
        RELEASED,
        "Ouro's gate as its released code rounds it: CDF_t in the checkpoint's dtype",
        _OURO,
        scale="cdf",
    ),
    _entry(
        "variant",
        CONTINUATION,
        "the model's own gate, its logit averaged over the positions that score the choices",
        _OURO,
    ),
    _entry(
        "variant",
        EXPECTED,
        "t - (1 q_1 + ... + T q_T), the loops beyond the gate's expected depth; no causal rule: q "
        "reads the gate at later loops too",
        _PONDERNET,
        scale="loops",
    ),
]

_FITTED = [
    _entry(
        "gate",
        "KIND-ponder",
        "-log(1 - CDF_t) of a gate fitted to E[sum_t q_t CE_t] + beta KL(q || prior)",
        f"{_PAPER}; {_PONDERNET}",
    ),
    _entry(
        "gate",
        "KIND-next",
        "-log(1 - CDF_t) of a gate fitted to what the next loop gains, max(0, CE_t - CE_{t+1})",
        f"{_OURO}, as its text reads",
    ),
    _entry(
        "gate",
        "KIND-previous",
        "-log(1 - CDF_t) of a gate fitted to what this loop gained, max(0, CE_{t-1} - CE_t)",
        f"{_OURO}, as its formula reads",
        first_loop=2,
    ),
    _entry(
        "gate",
        "KIND-any-later",
        "-log(1 - CDF_t) of a gate fitted to what the best later loop gains, CE_t - min_{s>t} CE_s",
        "RecurTrace, arXiv 2609.03379",
    ),
    _entry(
        "gate",
        "KIND-correctness",
        "logit of the chance that the prediction at loop t is right",
        f"{_CALM}; TRM, arXiv 2510.04871",
        scale="logit",
    ),
    _entry(
        "gate",
        "KIND-agreement",
        "logit of the chance that the prediction at loop t is that of the last loop",
        _CALM,
        scale="logit",
    ),
    _entry(
        "gate",
        "KIND-depth",
        "the expected number of further loops until the prediction stays right",
        "defined here",
        direction="low",
        scale="loops",
    ),
    _entry(
        "gate",
        "linear-OBJECTIVE",
        "a linear function of h_t",
        _PAPER,
        direction=None,
    ),
    _entry(
        "gate",
        "mlp-OBJECTIVE",
        "a network of two layers, of the states' width, on h_t",
        _PAPER,
        direction=None,
    ),
    _entry(
        "gate",
        "boosted-OBJECTIVE",
        "gradient-boosted trees on the signals at loop t, their changes and t; not for ponder",
        "scikit-learn, HistGradientBoosting",
        direction=None,
    ),
]

_OF_DEPTH = [
    _entry("fixed", FIXED, "t: the same depth for all", _PAPER, scale="loop"),
    _entry(
        "bound",
        BOUND,
        "what going on is expected to gain, by backward induction, less the price of a loop: the "
        "best causal rule that could be learned from the frozen states",
        "optimal stopping by regression, Longstaff and Schwartz 2001",
        direction="low",
        scale="loop",
    ),
]

_HINDSIGHT = [
    _entry(
        "oracle",
        ORACLE,
        "the first loop that is right: no rule, the upper bound of all",
        _OVERTHINKING,
        direction=None,
        scale="loop",
    ),
    _entry(
        "oracle",
        ORACLE_STAYS,
        "the first loop from which on it is never wrong again",
        _OVERTHINKING,
        direction=None,
        scale="loop",
    ),
    _entry(
        "oracle", ORACLE_LOSS, "the loop of the least CE_t", _OURO, direction=None, scale="loop"
    ),
    _entry(
        "oracle",
        ORACLE_SATURATION,
        "the first loop after which the prediction never changes again",
        _CALM,
        direction=None,
        scale="loop",
    ),
]

READOUTS: dict[str, ReadoutEntry] = {
    entry.name: entry for entry in (*_OF_SIGNALS, *_OF_THE_MODEL, *_FITTED, *_OF_DEPTH, *_HINDSIGHT)
}
"""Every readout by name, fitted gates by their families."""
