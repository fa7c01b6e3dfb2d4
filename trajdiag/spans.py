"""Estimates as what is shown of them: a value, an interval, a p value."""

from dataclasses import dataclass

from trajdiag.metrics.bootstrap import Estimate, interval
from trajdiag.metrics.significance import bootstrap_p


@dataclass(frozen=True, kw_only=True)
class Span:
    """A value with its interval; the bounds are None where there is none."""

    value: float
    low: float | None
    high: float | None

    @property
    def positive(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.low is not None and self.low > 0

    @property
    def negative(self) -> bool:
        """Whether the whole interval is below 0."""
        return self.high is not None and self.high < 0

    @property
    def negated(self) -> "Span":
        """Of the opposite quantity."""
        low, high = (None if bound is None else -bound for bound in (self.high, self.low))
        return Span(value=-self.value, low=low, high=high)

    def text(self, scale: float = 1.0, digits: int = 2, unit: str = "") -> str:
        """Such as `1.75 [1.71, 1.80]`, with the unit after the value."""
        shown = f"{_number(self.value * scale, digits)}{unit}"
        if self.low is None or self.high is None:
            return f"{shown} [no interval]"
        low, high = (_number(bound * scale, digits) for bound in (self.low, self.high))
        return f"{shown} [{low}, {high}]"

    def numbers(self, name: str) -> dict[str, float | None]:
        """As a finding keeps them."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


@dataclass(frozen=True, kw_only=True)
class Spans:
    """How intervals are read off estimates."""

    confidence: float = 0.95
    left_out: int = 0
    """Rows of a jackknife at the end of every estimate: then intervals are BCa, else percentile."""

    def interval(self, estimate: Estimate) -> tuple[float | None, float | None, float | None]:
        """Value and bounds; None where undefined or not reached."""
        return interval(estimate, self.confidence, self.left_out)

    def of(self, estimate: Estimate | None) -> Span | None:
        """None where there is no estimate, or it is undefined."""
        if estimate is None:
            return None
        value, low, high = self.interval(estimate)
        return None if value is None else Span(value=value, low=low, high=high)

    def sure(self, estimate: Estimate) -> Span:
        """The span of an estimate that is always defined, such as a share."""
        span = self.of(estimate)
        if span is None:
            raise ValueError("a share, an area or a depth of an operating point is always defined")
        return span

    def drawn(self, estimate: Estimate) -> Estimate:
        """The estimate without a jackknife's rows."""
        return estimate[: len(estimate) - self.left_out]

    def p(self, estimate: Estimate) -> float | None:
        """Two-sided p that what is estimated is 0."""
        return bootstrap_p(self.drawn(estimate))


def _number(value: float, digits: int) -> str:
    """Rounded, without a negative zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "\N{MINUS SIGN}")
