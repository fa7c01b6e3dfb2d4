"""One question into tokens: the rows to run, and where each choice is read."""

from collections.abc import Sequence
from dataclasses import dataclass

from trajdiag.errors import ConfigError
from trajdiag.extraction.config import TooLong
from trajdiag.extraction.encoder import Encoder
from trajdiag.tasks.questions import Question


@dataclass
class LengthRule:
    """Rows within the model's context, and how many had to be cut or left out."""

    longest: int | None
    """Tokens; None where nothing limits them."""
    rule: TooLong
    """What becomes of longer ones."""
    truncated: int = 0
    skipped: int = 0

    def fits(self, what: str, tokens: int) -> bool:
        """Whether `what`, `tokens` long, is to be run: as it is, or cut by `cut`.

        Raises ConfigError where it is too long and nobody said what to do about it.
        """
        if self.longest is None or tokens <= self.longest:
            return True
        if self.rule == "refuse":
            raise ConfigError(
                f"{what} has {tokens} tokens, the model takes {self.longest}; --truncate cuts such "
                "prompts from the left, --skip leaves them out"
            )
        if self.rule == "skip":
            self.skipped += 1
            return False
        self.truncated += 1
        return True

    def cut(self, tokens: Sequence[int]) -> Sequence[int]:
        """The last tokens that the model takes."""
        return tokens if self.longest is None else tokens[-self.longest :]

    def notes(self) -> dict[str, int]:
        """What the store records of it."""
        counts = {"truncated": self.truncated, "skipped": self.skipped}
        return {name: count for name, count in counts.items() if count}


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """One question's rows."""

    rows: list[Sequence[int]]
    at: int
    """The position of the last prompt token in the first row."""
    row: list[int]
    """Of each choice: its row."""
    tokens: list[list[int]]
    """And its tokens, the first of which is predicted at `starts`."""
    starts: list[int]


def letters(where: str, question: Question, encode: Encoder, rule: LengthRule) -> Encoded | None:
    """All that the choices share is prompt, such as a space that is a token of its own."""
    whole = [encode(_text(question, choice)) for choice in question.choices]
    shared = _shared(whole)
    if not shared or any(len(tokens) != shared + 1 for tokens in whole):
        choice, tokens = next(
            (c, t)
            for c, t in zip(question.choices, whole, strict=True)
            if not shared or len(t) != shared + 1
        )
        raise ConfigError(
            f"{where}: choice {choice!r} is not one token of its own after the prompt (tokens "
            f"{tokens[shared:][:8]}); score it with style continuation"
        )
    if not rule.fits(where, shared):
        return None
    row = rule.cut(whole[0][:shared])
    last = len(row) - 1
    count = len(whole)
    tokens = [[t[shared]] for t in whole]
    return Encoded(rows=[row], at=last, row=[0] * count, tokens=tokens, starts=[last] * count)


def continuations(
    where: str, question: Question, encode: Encoder, rule: LengthRule
) -> Encoded | None:
    """Tokenised as lm-evaluation-harness does: a choice is what follows the prompt's own tokens,
    and the prompt's last spaces belong to it. None where the question is left out."""
    prompt, following = _split(question, encode)
    for choice, tokens in zip(question.choices, following, strict=True):
        if not tokens:
            raise ConfigError(
                f"{where}: choice {choice!r} adds no token to the prompt; give it some text"
            )
    # the last token of a continuation is predicted, never read
    longest = max(len(tokens) for tokens in following) - 1
    if not rule.fits(where, len(prompt) + longest):
        return None
    rows: dict[tuple[int, ...], int] = {}
    row, starts = [], []
    for tokens in following:
        cut = rule.cut((prompt + tokens)[:-1])
        row.append(rows.setdefault(tuple(cut), len(rows)))
        starts.append(len(cut) - len(tokens))
    if min(starts) < 0:
        raise ConfigError(
            f"{where}: a choice of {longest + 1} tokens leaves no room for a prompt; shorten "
            "it, or leave such questions out with --skip"
        )
    return Encoded(rows=list(rows), at=starts[0], row=row, tokens=following, starts=starts)


def _split(question: Question, encode: Encoder) -> tuple[list[int], list[list[int]]]:
    """The prompt's tokens, and those of each choice after it."""
    if not question.prompt:
        first = encode.first()
        found = [encode.plain(_text(question, choice)) for choice in question.choices]
        return [first], [tokens[tokens[:1] == [first] :] for tokens in found]
    prompt = encode(question.prompt.rstrip())
    if not prompt:
        raise ConfigError(
            f"the prompt of question {question.id} has no token: {question.prompt!r:.60}; give it "
            "some text, or none at all"
        )
    # a tokenizer that merges across the border may change the prompt's last token: the choice's
    # row keeps the prompt's own tokens, as lm-evaluation-harness does
    whole = [encode(_text(question, choice)) for choice in question.choices]
    return prompt, [tokens[len(prompt) :] for tokens in whole]


def _text(question: Question, choice: str) -> str:
    return question.prompt + question.delimiter + choice


def _shared(rows: Sequence[Sequence[int]]) -> int:
    """How many first tokens all rows have in common."""
    count = 0
    for tokens in zip(*rows, strict=False):
        if len(set(tokens)) > 1:
            break
        count += 1
    return count
