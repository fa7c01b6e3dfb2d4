"""A checkpoint's tokenizer: tokenizer.json as it stands, through the `tokenizers` library.

The classes of transformers may build another one from the same folder, by the class that
tokenizer_config.json names.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trajdiag.errors import CheckpointError, ConfigError, shown
from trajdiag.foreign import running
from trajdiag.models.base import Tokenizer
from trajdiag.models.weights import read_json

if TYPE_CHECKING:
    import tokenizers

TOKENIZER = "tokenizer.json"
_BY_TEXT = ("tokenizer_config.json", "special_tokens_map.json")
_BY_ID = "config.json"


class TextTokenizer:
    """Text to tokens and back, all of it: what tokenizer.json says of cutting and of padding does
    not apply."""

    def __init__(
        self,
        tokenizer: "tokenizers.Tokenizer",
        *,
        sha256: str,
        eos_token_id: int | None = None,
        bos_token_id: int | None = None,
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.sha256 = sha256
        """SHA-256 of tokenizer.json."""
        self.eos_token_id = eos_token_id
        self.bos_token_id = bos_token_id

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """See Tokenizer."""
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, token_ids: list[int]) -> str:
        """See Tokenizer; special tokens are kept."""
        return self._tokenizer.decode(token_ids, skip_special_tokens=False)

    def get_vocab(self) -> dict[str, int]:
        """See Tokenizer."""
        return self._tokenizer.get_vocab(with_added_tokens=True)


def read_tokenizer(folder: Path) -> TextTokenizer | None:
    """The tokenizer of a checkpoint's folder; None where it has no tokenizer.json.

    What ends and begins a text is what the first of tokenizer_config.json, special_tokens_map.json
    and config.json says that says anything. Raises CheckpointError for a damaged file.
    """
    path = folder / TOKENIZER
    if not path.is_file():
        if not os.path.lexists(path):
            return None
        found = "a folder" if path.is_dir() else "a link to nothing, or no plain file"
        raise CheckpointError(f"{path} is {found}; put the tokenizer's file there, or remove it")
    import tokenizers

    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # The library raises nothing narrower.
        raise CheckpointError(
            f"{path} is not a tokenizer: {' '.join(str(error).split())}; get the file again"
        ) from error
    return TextTokenizer(
        tokenizer,
        sha256=hashlib.sha256(content).hexdigest(),
        eos_token_id=_special(folder, tokenizer, "eos"),
        bos_token_id=_special(folder, tokenizer, "bos"),
    )


def require_fits(tokenizer: Tokenizer, vocab_size: int, name: str) -> None:
    """Raise CheckpointError where `tokenizer` can give an id that the model `name` does not have:
    by its vocabulary, or by what short texts become; ConfigError where it is none, or fails.

    A smaller tokenizer fits: vocabularies are padded.
    """
    what = f"the tokenizer of {name}"
    with running(f"get_vocab() of {what}"):
        vocabulary: Any = tokenizer.get_vocab()
    if not isinstance(vocabulary, Mapping) or not all(map(_is_entry, vocabulary.items())):
        raise ConfigError(f"get_vocab() of {what} must give a dict of tokens (str) to ids (int)")
    if not vocabulary:
        raise CheckpointError(f"{what} has no tokens")
    token = max(vocabulary, key=vocabulary.__getitem__)
    _require_below(vocab_size, vocabulary[token], f"{what} can give {shown(token)}")
    with running(what):
        ends = {key: getattr(tokenizer, key) for key in ("eos_token_id", "bos_token_id")}
    for key, number in ends.items():
        if number is not None:
            if not _is_id(number):
                raise ConfigError(f"{key} of {what} must be an id or None, not {shown(number)}")
            _require_below(vocab_size, number, f"{what} has {key}")
    with running(f"decode() of {what}"):
        text: Any = tokenizer.decode([vocabulary[token]])
    if not isinstance(text, str):
        raise ConfigError(f"decode() of {what} must give a str, not {type(text).__name__}")
    # What is put around a text need not be in the vocabulary.
    _require_below(vocab_size, max(_ids(tokenizer, what, ("", token)), default=0), f"{what} adds")


def _ids(tokenizer: Tokenizer, what: str, texts: tuple[str, ...]) -> set[int]:
    """The ids that `texts` become. Raises ConfigError for what are none, or where all texts fail:
    a tokenizer of few characters may fail for some."""
    found: set[int] = set()
    failures = []
    for text in texts:
        try:
            with running(f"encode() of {what}"):
                ids: Any = tokenizer.encode(text)
        except ConfigError as error:
            failures.append(error)
            continue
        if not isinstance(ids, list) or not all(map(_is_id, ids)):
            raise ConfigError(
                f"encode() of {what} must give a list of ids from 0, not {shown(ids)}; wrap it, as "
                "transformers.PreTrainedTokenizerFast(tokenizer_object=...) does"
            )
        found |= set(ids)
    if len(failures) == len(texts):
        raise failures[-1]
    return found


def _is_id(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_entry(entry: tuple[Any, Any]) -> bool:
    return isinstance(entry[0], str) and _is_id(entry[1])


def _require_below(vocab_size: int, number: int, what: str) -> None:
    if number >= vocab_size:
        raise CheckpointError(
            f"{what} = {shown(number)}, but the model has a vocabulary of {vocab_size} (0 to "
            f"{vocab_size - 1}); they do not belong together"
        )


def _special(folder: Path, tokenizer: "tokenizers.Tokenizer", kind: str) -> int | None:
    return next(_said(folder, tokenizer, kind), None)


def _said(folder: Path, tokenizer: "tokenizers.Tokenizer", kind: str) -> Iterator[int]:
    """The ids that the folder's files give for `eos` or `bos`, the most trusted first."""
    for name in _BY_TEXT:
        token = _entry(folder / name, f"{kind}_token")
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str) and (number := tokenizer.token_to_id(text)) is not None:
            yield number
    numbers = _entry(folder / _BY_ID, f"{kind}_token_id")
    for number in numbers if isinstance(numbers, list) else [numbers]:
        # The library takes 32 bits, and raises for what does not fit into them.
        if type(number) is not int or not 0 <= number < 2**32:
            continue
        if tokenizer.id_to_token(number) is not None:
            yield number


def _entry(path: Path, key: str) -> Any:
    return read_json(path).get(key) if path.is_file() else None
