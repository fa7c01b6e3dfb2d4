"""tokenizer.json as it stands, and what the files beside it say of a text's ends."""

import hashlib
import json
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from tests.models.tiny_tokenizer import write_tokenizer
from trajdiag.errors import CheckpointError, ConfigError
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
        ({"config": {"eos_token_id": -1, "bos_token_id": 2**40}}, None, None),
        ({"config": {"eos_token_id": [10**400, 2], "bos_token_id": 99}}, 2, None),
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


def test_a_tokenizer_that_is_no_file_is_said_to_be_none(tmp_path: Path):
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "tokenizer.json").symlink_to(tmp_path / "gone")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is a link to nothing"):
        read_tokenizer(tmp_path / "linked")
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is a folder"):
        read_tokenizer(tmp_path)


def test_what_is_put_around_a_text_must_be_in_the_models_vocabulary(tmp_path: Path):
    made = write_tokenizer(tmp_path, WORDS)
    content = json.loads(made.to_str())
    around = TemplateProcessing(single="<|im_start|> $A", special_tokens=[(WORDS[1], 900)])
    content["post_processor"] = json.loads(around.__getstate__())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer is not None and tokenizer.encode("two") == [900, 3]
    require_fits(tokenizer, 901, "tiny")
    with pytest.raises(CheckpointError, match="of tiny adds = 900, but the model has"):
        require_fits(tokenizer, 900, "tiny")


class OwnTokenizer:
    """Two tokens, and no other character."""

    eos_token_id = bos_token_id = 0

    def encode(self, text, add_special_tokens=True):
        return ["ab".index(character) for character in text]

    def decode(self, token_ids):
        return "".join("ab"[token] for token in token_ids)

    def get_vocab(self):
        return {"a": 0, "b": 1}


def raising(*_, **__):
    raise SystemExit("no\ntokens")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("get_vocab", raising, r"get_vocab\(\) .* failed: SystemExit: no tokens \(test_tok"),
        ("encode", raising, r"encode\(\) .* failed: SystemExit: no tokens"),
        ("decode", raising, r"decode\(\) .* failed: SystemExit: no tokens"),
        ("get_vocab", lambda: ["a", "b"], "must give a dict of tokens"),
        ("get_vocab", lambda: {0: "a"}, "must give a dict of tokens"),
        ("get_vocab", lambda: {"a": 0.0}, "must give a dict of tokens"),
        ("get_vocab", lambda: {"a": -1}, "must give a dict of tokens"),
        ("encode", lambda text: {"input_ids": [0]}, "must give a list of ids from 0, not {'input"),
        ("encode", lambda text: ["a"], "must give a list of ids from 0, not"),
        ("decode", lambda ids: ["b"], "must give a str, not list"),
        ("eos_token_id", "a", "eos_token_id of .* must be an id or None, not 'a'"),
    ],
)
def test_a_tokenizer_of_ones_own_that_is_none_is_one_line(name, value, said):
    tokenizer = OwnTokenizer()
    require_fits(tokenizer, 2, "mine")
    setattr(tokenizer, name, value)
    with pytest.raises(ConfigError, match=said) as raised:
        require_fits(tokenizer, 2, "mine")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("name", "value"), [("encode", lambda text: [7]), ("bos_token_id", 7)])
def test_ids_of_ones_own_tokenizer_must_be_the_models(name, value):
    tokenizer = OwnTokenizer()
    setattr(tokenizer, name, value)
    require_fits(tokenizer, 8, "mine")
    with pytest.raises(
        CheckpointError, match=r"of mine .* = 7, but the model has a vocabulary of 7"
    ):
        require_fits(tokenizer, 7, "mine")
