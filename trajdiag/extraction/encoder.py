"""Text into the tokens of one model."""

from trajdiag.errors import ConfigError
from trajdiag.foreign import running
from trajdiag.models.base import Tokenizer


class Encoder:
    """A tokenizer's texts with the special tokens that it puts before them. What it puts after
    them, such as an end of text, would stand between a prompt and its choice, and is left out."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        """`vocab_size` is the model's. Raises ConfigError where special tokens change a text's own.

        All methods raise ConfigError for what is no token of the model.
        """
        self._tokenizer, self._vocab_size = tokenizer, vocab_size
        bos = tokenizer.bos_token_id
        with running("the tokenizer's decode"):
            self._bos = None if bos is None else tokenizer.decode([bos])
        self._before, self._after = self._added()

    def __call__(self, text: str) -> list[int]:
        """The text's tokens; without special ones where it begins with the first of them."""
        begun = bool(self._bos) and text.startswith(self._bos or "")
        if begun or not self._before + self._after:
            return self.plain(text)
        tokens = self._tokens(text, special=True)
        return tokens[: len(tokens) - self._after]

    def plain(self, text: str) -> list[int]:
        """The text's tokens alone."""
        return self._tokens(text, special=False)

    def decode(self, tokens: list[int]) -> str:
        """The text of these tokens."""
        with running("the tokenizer's decode"):
            return self._tokenizer.decode(tokens)

    def ids(self) -> set[int]:
        """The tokens that the tokenizer has."""
        with running("the tokenizer's get_vocab"):
            return set(self._tokenizer.get_vocab().values())

    def first(self) -> int:
        """What an empty prompt consists of: the token that begins a text, else the one that ends
        one. Raises ConfigError where there is neither."""
        bos, eos = self._tokenizer.bos_token_id, self._tokenizer.eos_token_id
        first = eos if bos is None else bos
        if first is None:
            raise ConfigError(
                "an empty prompt needs a tokenizer that has a bos or an eos token, and this one "
                "has neither; give every question a prompt"
            )
        return first

    def _added(self) -> tuple[int, int]:
        """How many tokens the tokenizer adds before a text and after it."""
        plain, special = (self._tokens("a", special=special) for special in (False, True))
        for before in range(len(special) - len(plain) + 1):
            if special[before : before + len(plain)] == plain:
                return before, len(special) - len(plain) - before
        raise ConfigError(
            "the tokenizer changes a text's tokens where it adds special ones: 'a' is "
            f"{plain[:8]} without them and {special[:8]} with them; special tokens may only be "
            "added before and after a text"
        )

    def _tokens(self, text: str, *, special: bool) -> list[int]:
        with running("the tokenizer's encode"):
            found = self._tokenizer.encode(text, add_special_tokens=special)
        if not isinstance(found, list) or not all(type(token) is int for token in found):
            raise ConfigError(
                f"the tokenizer's encode must give a list of token ids, not a "
                f"{type(found).__name__}; PreTrainedTokenizerFast(tokenizer_object=...) of "
                "transformers wraps a tokenizer of the tokenizers library"
            )
        if found and not 0 <= min(found) <= max(found) < self._vocab_size:
            bad = next(token for token in found if not 0 <= token < self._vocab_size)
            raise ConfigError(
                f"the tokenizer gives {text[:40]!r} the id {bad}, but the model has a vocabulary "
                f"of {self._vocab_size} (0 to {self._vocab_size - 1}); they do not belong together"
            )
        return found
