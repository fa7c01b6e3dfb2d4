"""Stores of running text keep what their classes read, and reports show it."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import trajdiag
from tests.language_models import EOS, VOCABULARY, byte_tokenizer, loaded, tiny_ouro
from trajdiag.cli import main
from trajdiag.errors import StoreError
from trajdiag.extraction import extract, token_texts
from trajdiag.extraction.encoder import Encoder
from trajdiag.extraction.token_texts import tokens_file
from trajdiag.reporting.board import board
from trajdiag.reporting.example_views import drill_down
from trajdiag.reporting.html import render_html
from trajdiag.store.reader import open_store
from trajdiag.store.schema import TOKENS
from trajdiag.store.token_texts import load_tokens
from trajdiag.tasks.questions import Document

WORDS = ("the Answer is 12", "What is mod 7", "maybe Yes", "No: the Question is 3")


@dataclasses.dataclass(frozen=True)
class Lines:
    name = "lines"

    def parameters(self) -> dict[str, Any]:
        return {}

    def notes(self) -> dict[str, Any]:
        return {}

    def documents(self) -> dict[str, list[Document]]:
        return {
            split: [
                Document(id=f"{split}{i}", text=f"{WORDS[i % 4]} {split} {i} {WORDS[(i + s) % 4]}")
                for i in range(8)
            ]
            for s, split in enumerate(("fit", "val", "test"))
        }

    def positions(self, split: str, tokens: np.ndarray) -> list[np.ndarray]:
        return [np.arange(count) for count in tokens]


class Odd:
    """A tokenizer whose texts are a user's own."""

    bos_token_id = eos_token_id = None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [1]

    def decode(self, token_ids: list[int]) -> str:
        return {0: "x" * 99, 1: "\ud800<b>", 2: "\u202eevil"}[token_ids[0]]

    def get_vocab(self) -> dict[str, int]:
        return {"a": 0, "b": 1, "c": 2}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    return extract(loaded(tiny_ouro(folder / "tiny")), Lines(), cache_dir=folder)


def test_each_class_is_called_by_what_its_token_reads_and_none_that_the_tokenizer_lacks(store):
    tokenizer = byte_tokenizer()
    size = tokenizer.get_vocab_size()
    assert len(store.class_texts) == VOCABULARY
    assert store.class_texts[0] == EOS
    assert store.class_texts[tokenizer.token_to_id("Answer")] == "Answer"
    assert " the" in store.class_texts
    assert store.class_texts[size:] == ("",) * (VOCABULARY - size)
    assert store.class_names is None


def test_the_examples_of_a_report_show_tokens_and_not_their_numbers(store):
    results = trajdiag.diagnose(store, n_resamples=20, bound=("ridge",))
    assert results.examples
    for row in results.examples:
        texts = [store.class_texts[c] or str(c) for c in row.predictions]
        assert (row.target_name, row.prediction_names) == (store.class_texts[row.target], texts)
    page = render_html(board(results), [], "t")
    shown = {answer.removesuffix(" ✓") for view in _views(results) for answer in view.answers}
    plain = {t for row in results.examples for t in row.prediction_names if t.isprintable()}
    assert plain
    assert {text if text == text.strip() else f"“{text}”" for text in plain} <= shown
    assert all(f"<bdi>{text}" in page for text in plain if text.isalnum())


def _views(results):
    return drill_down(board(results), results.stores[0].store).examples


def test_texts_are_cut_and_broken_ones_mended():
    texts = json.loads(tokens_file(Encoder(Odd(), 5), 5) or b"")
    assert texts == ["x" * token_texts.LETTERS, "?<b>", "\u202eevil", "", ""]


def test_a_vocabulary_that_takes_too_much_keeps_no_texts(monkeypatch):
    monkeypatch.setattr(token_texts, "MOST_BYTES", 20)
    assert tokens_file(Encoder(Odd(), 5), 5) is None


def test_a_store_without_texts_opens_and_calls_classes_by_their_ids(store, tmp_path):
    model = loaded(tiny_ouro(tmp_path / "tiny"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_texts, "MOST_BYTES", 0)
        old = extract(model, Lines(), cache_dir=tmp_path)
    assert not (old.path / TOKENS).exists()
    assert old.class_texts is None
    assert old.fingerprint == store.fingerprint
    rows = trajdiag.diagnose(old, n_resamples=20, bound=("ridge",)).examples
    assert rows
    assert all(row.prediction_names is None for row in rows)


@pytest.mark.parametrize("text", ['"\\ud800"', "1", "null"])
def test_a_text_that_no_report_can_keep_is_damage(store, text):
    texts = [json.dumps(each) for each in store.class_texts]
    content = f"[{', '.join([text, *texts[1:]])}]".encode()
    with pytest.raises(StoreError, match=r"tokens\.json of store mine is damaged"):
        load_tokens(content, store="mine", classes=len(texts))


def test_damaged_texts_are_refused_found_by_verify_and_made_anew(tmp_path, capsys):
    model = loaded(tiny_ouro(tmp_path / "tiny"))
    store = extract(model, Lines(), cache_dir=tmp_path)
    whole = store.class_texts
    (store.path / TOKENS).write_text('["a"]')
    with pytest.raises(
        StoreError, match=r"tokens\.json of store .* is damaged; run the extraction"
    ):
        _ = open_store(store.path).class_texts
    assert main(["show", str(store.path), "--verify"]) == 1
    assert "tokens.json has changed since it was written" in capsys.readouterr().out
    assert extract(model, Lines(), cache_dir=tmp_path).class_texts == whole
