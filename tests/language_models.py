"""Tiny models that read text: a byte-level tokenizer with a few merges, and random Ouros."""

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from tests.models.random_ouro import random_decoder
from trajdiag.models.base import LoopedModel
from trajdiag.models.checkpoint import write_checkpoint
from trajdiag.models.registry import load_model

EOS = "<|endoftext|>"
WORDS = ["Question", "Answer", "What", "Yes", "No", "maybe", "mod", "the", "is"]
VOCABULARY = 320
"""Of the models: more than the tokenizer's."""


def byte_tokenizer(*, spaced: bool = True) -> Tokenizer:
    """Bytes, and WORDS as merges; with `spaced` a word takes the space before it along, as GPT-2's
    do, and so does a letter or a digit. Token 0 is EOS."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        for end in range(1, len(word)):
            merges.append((word[:end], word[end]))
    if spaced:
        merges += [("Ġ", part) for part in [*"ABCDEFG0123456789", *WORDS]]
    merges = list(dict.fromkeys(merges))
    pieces = dict.fromkeys([EOS, *alphabet, *(first + second for first, second in merges)])
    tokenizer = Tokenizer(BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True)])
    assert tokenizer.get_vocab_size() <= VOCABULARY
    return tokenizer


def tiny_ouro(folder: Path, *, spaced: bool = True, seed: int = 0, **sizes: object) -> Path:
    """A checkpoint with a tokenizer, in Ouro's format."""
    sizes = {"vocab_size": VOCABULARY, "loops": 4, "max_position_embeddings": 512} | sizes
    decoder = random_decoder(seed, **sizes)
    write_checkpoint(folder, decoder, tokens={"eos_token_id": 0, "pad_token_id": 0})
    byte_tokenizer(spaced=spaced).save(str(folder / "tokenizer.json"))
    return folder


def loaded(folder: Path, dtype: torch.dtype = torch.float32) -> LoopedModel:
    """The model of a folder, on the CPU."""
    return load_model(folder, device="cpu", dtype=str(dtype).removeprefix("torch."))


def folder_of(family: str, folder: Path) -> Path:
    """A tiny model of any family that the registry opens, with the tokenizer."""
    if family == "ouro":
        return tiny_ouro(folder)
    if family == "huginn_raven":
        from tests.models import random_huginn

        decoder = random_huginn.random_decoder(vocab_size=VOCABULARY, block_size=512)
        random_huginn.write_folder(folder, decoder)
    else:
        from tests.models.tiny_native import tiny

        tiny(family, folder, vocab_size=VOCABULARY, max_position_embeddings=512)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


FAMILIES = ("ouro", "huginn_raven", "dory", "hrm_text", "inkling2_loop_text")
