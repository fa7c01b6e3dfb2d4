"""A tokenizer of whole words, in the files that a checkpoint's folder has."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel


def write_tokenizer(folder: Path, words: list[str], **files: Any) -> Tokenizer:
    """Token i is `words[i]`; unknown words are token 0. `files` are further JSON files by stem."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(
        [AddedToken(word, special=True) for word in words if word.startswith("<")]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    for stem, content in files.items():
        (folder / f"{stem}.json").write_text(json.dumps(content), encoding="utf-8")
    return tokenizer
