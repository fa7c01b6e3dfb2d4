"""Running text: every chosen token is an example, as if its document had been run by itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from tests.language_models import VOCABULARY, byte_tokenizer, loaded, tiny_ouro
from trajdiag.errors import ConfigError
from trajdiag.extraction import extract
from trajdiag.models.tracing import trace
from trajdiag.signals.registry import KEPT
from trajdiag.signals.tracker import compute_signals
from trajdiag.store import schema
from trajdiag.tasks.questions import Document

TEXTS = {
    "fit": ["What is the Question? mod 7", "Yes"],
    "val": ["No. maybe the Answer is 12345"],
    "test": ["is", "the Question is: What is 3 mod 2? " * 3],
}


@dataclass(frozen=True, kw_only=True)
class Notes:
    every: int = 1

    name = "notes"

    def parameters(self) -> dict[str, Any]:
        return {"every": self.every}

    def notes(self) -> dict[str, Any]:
        return {}

    def documents(self) -> dict[str, list[Document]]:
        return {
            split: [Document(id=f"{split}{i}", text=text) for i, text in enumerate(texts)]
            for split, texts in TEXTS.items()
        }

    def positions(self, split: str, tokens: np.ndarray) -> list[np.ndarray]:
        return [np.arange(0, count, self.every) for count in tokens]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return loaded(tiny_ouro(tmp_path_factory.mktemp("ouro") / "tiny"))


def predictions(window: int, every: int = 1):
    """(document, tokens, index of the prediction) in store order."""
    for split, texts in TEXTS.items():
        for i, text in enumerate(texts):
            tokens = byte_tokenizer().encode(text).ids
            for index in range(0, len(tokens) - 1, every):
                yield f"{split}{i}", tokens, index


@pytest.mark.parametrize(("window", "block"), [(1024, 512), (10, 512), (10, 16)])
def test_every_token_is_predicted_from_those_before_it(model, tmp_path, monkeypatch, window, block):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", block)
    store = extract(model, Notes(), cache_dir=tmp_path, window=window, batch_tokens=40)
    hidden, logits = store.torch("hidden"), store.torch("logits")
    assert store.classes == VOCABULARY
    count = 0
    for i, (document, tokens, index) in enumerate(predictions(window)):
        begin = index // window * window
        alone = trace(model, [tokens[begin : index + 1]])
        np.testing.assert_allclose(hidden[i], alone.hidden[0, -1], atol=1e-5)
        np.testing.assert_allclose(logits[i], alone.logits[0, -1], atol=1e-5)
        assert store.ids[i] == f"{document}/{index}"
        assert store.target[i] == tokens[index + 1]
        assert store.covariates["position"][i] == index - begin
        count += 1
    assert count == len(store)
    documents = [name.split("/")[0] for name in store.ids]
    assert len(set(zip(documents, store.group.tolist(), strict=True))) == 3  # two are one token
    assert store.inputs is not None
    assert store.inputs[2] == byte_tokenizer().decode(
        byte_tokenizer().encode(TEXTS["fit"][0]).ids[:3]
    )


def test_with_the_largest_logits_only_everything_else_is_as_with_all(model, tmp_path):
    whole = extract(model, Notes(), cache_dir=tmp_path / "whole", logits="full")
    some = extract(model, Notes(), cache_dir=tmp_path / "some", logits="topk:5")
    assert "logits" not in some.arrays
    assert some.classes == whole.classes == VOCABULARY
    np.testing.assert_array_equal(some.predictions(), whole.predictions())
    np.testing.assert_array_equal(some.correct("test"), whole.correct("test"))
    np.testing.assert_allclose(some.cross_entropy("val"), whole.cross_entropy("val"), atol=1e-5)
    assert some.kept_signals == some.signal_names == whole.signal_names
    assert whole.kept_signals == KEPT
    for name in whole.signal_names:
        np.testing.assert_array_equal(some.signal(name), whole.signal(name))
    expected = log_softmax(whole.numpy("logits").astype(float), axis=-1)
    found = some.numpy("vocabulary/target_log_probability")
    target = whole.target[:, None, None]
    np.testing.assert_allclose(found, np.take_along_axis(expected, target, 2)[..., 0], atol=1e-5)


def test_little_memory_reads_the_tokens_of_a_row_piece_by_piece(model, tmp_path):
    whole = extract(model, Notes(), cache_dir=tmp_path / "whole")
    pieces = extract(model, Notes(), cache_dir=tmp_path / "pieces", memory=1e-6)
    np.testing.assert_allclose(pieces.numpy("logits"), whole.numpy("logits"), atol=1e-5)
    hidden, logits = pieces.torch("hidden"), pieces.torch("logits")
    signals = compute_signals(hidden, logits, pieces.signal_names)
    for name, values in signals.items():
        np.testing.assert_array_equal(pieces.signal(name), values)


def test_a_sample_of_positions(model, tmp_path):
    store = extract(model, Notes(every=3), cache_dir=tmp_path)
    expected = [f"{document}/{index}" for document, _, index in predictions(1024, 3)]
    assert store.ids.tolist() == expected


def test_the_state_of_a_token_is_its_own(model, tmp_path):
    with pytest.raises(ConfigError, match="reads the state of each token: --pool last"):
        extract(model, Notes(), cache_dir=tmp_path, pool="mean")


def test_positions_out_of_a_document_are_refused(model, tmp_path):
    class Beyond(Notes):
        def positions(self, split, tokens):
            return [np.arange(count + 1) for count in tokens]

    with pytest.raises(ConfigError, match=r"document 'fit0' \(number 1\): must be below \d+"):
        extract(model, Beyond(), cache_dir=tmp_path)
