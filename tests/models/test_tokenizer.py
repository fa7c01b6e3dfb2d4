"""tokenizer.json as it stands, and what the files beside it say of a text's ends."""

import hashlib
import json
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from tests.models.tiny_tokenizer import write_tokenizer
from trajdiag.errors import CheckpointError
from trajdiag.models.tokenizer import read_tokenizer, require_fits

WORDS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "two", "plus", "three", "is"]


def test_text_becomes_tokens_and_text_again(tmp_path: Path):
    write_tokenizer(tmp_path, WORDS)
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer is not None
    assert tokenizer.encode("two plus three is<|im_end|>") == [3, 4, 5, 6, 2]
    assert tokenizer.decode([3, 4, 5, 2]) == "two plus three <|im_end|>"
    assert tokenizer.get_vocab() == {word: i for i, word in enumerate(WORDS)}


def test_it_is_what_transformers_reads_from_the_same_file(tmp_path: Path):
    made = write_tokenizer(tmp_path, WORDS)
    made.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[(WORDS[1], 1)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    ours = read_tokenizer(tmp_path)
    assert ours is not None
    for text in ("two plus two", "", "six is two<|im_end|>", "two\n\nis  three"):
        for special in (True, False):
            ids = ours.encode(text, add_special_tokens=special)
            assert ids == theirs.encode(text, add_special_tokens=special)
            assert ours.decode(ids) == theirs.decode(ids)
    assert ours.encode("two") == [1, 3] and ours.encode("two", add_special_tokens=False) == [3]
    assert ours.get_vocab() == theirs.get_vocab()


def test_cutting_and_padding_that_the_file_asks_for_do_not_happen(tmp_path: Path):
    made = write_tokenizer(tmp_path, WORDS)
    made.enable_truncation(2)
    made.enable_padding(length=9, pad_id=0, pad_token=WORDS[0])
    made.save(str(tmp_path / "tokenizer.json"))
    assert len(made.encode("two plus three").ids) == 9
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer is not None and tokenizer.encode("two plus three") == [3, 4, 5]


@pytest.mark.parametrize(
    ("files", "eos", "bos"),
    [
        ({}, None, None),
        ({"config": {"eos_token_id": 2, "bos_token_id": 1}}, 2, 1),
        ({"config": {"eos_token_id": [2, 0], "bos_token_id": None}}, 2, None),
        (
            {
                "tokenizer_config": {"eos_token": "<|endoftext|>"},
                "special_tokens_map": {"eos_token": "<|im_end|>", "bos_token": "<|im_start|>"},
                "config": {"eos_token_id": 2, "bos_token_id": 0},
            },
            0,
            1,
        ),
        (
            {
                "tokenizer_config": {"eos_token": None, "bos_token": "no such token"},
                "special_tokens_map": {"eos_token": {"content": "<|im_end|>", "lstrip": False}},
                "config": {"bos_token_id": 99},
            },
            2,
            None,
        ),
    ],
)
def test_the_first_file_that_names_a_token_decides(tmp_path: Path, files, eos, bos):
    write_tokenizer(tmp_path, WORDS, **files)
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer is not None
    assert (tokenizer.eos_token_id, tokenizer.bos_token_id) == (eos, bos)


def test_a_folder_without_one_is_a_model_of_tokens(tmp_path: Path):
    assert read_tokenizer(tmp_path) is None


def test_it_is_known_by_its_files_hash(tmp_path: Path):
    write_tokenizer(tmp_path, WORDS)
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer is not None
    content = (tmp_path / "tokenizer.json").read_bytes()
    assert tokenizer.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", ["", "{", '{"version": "1.0"}', "[]"])
def test_a_damaged_file_is_one_line(tmp_path: Path, content: str):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is not a tokenizer: ") as raised:
        read_tokenizer(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_tokenizer_must_stay_within_the_models_vocabulary(tmp_path: Path):
    write_tokenizer(tmp_path, WORDS)
    ours = read_tokenizer(tmp_path)
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    theirs.add_tokens(["extra"])
    assert ours is not None
    require_fits(ours, 7, "tiny")
    require_fits(ours, 4096, "tiny")
    require_fits(theirs, 8, "tiny")
    with pytest.raises(CheckpointError, match=r"of tiny can give 'is' = 6, .* vocabulary of 6 "):
        require_fits(ours, 6, "tiny")
    with pytest.raises(CheckpointError, match="'extra' = 7"):
        require_fits(theirs, 7, "tiny")


def test_a_gap_in_the_ids_counts_by_the_largest(tmp_path: Path):
    made = write_tokenizer(tmp_path, WORDS)
    content = json.loads(made.to_str())
    content["model"]["vocab"]["far"] = 500
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer is not None
    with pytest.raises(CheckpointError, match="'far' = 500"):
        require_fits(tokenizer, 500, "tiny")
