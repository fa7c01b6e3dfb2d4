"""Questions: what the store holds is what the model says of each prompt alone."""

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp, softmax

from tests.language_models import byte_tokenizer, loaded, tiny_ouro
from trajdiag.errors import ConfigError
from trajdiag.extraction import extract
from trajdiag.models.tracing import trace
from trajdiag.signals.padding import PADDED
from trajdiag.signals.tracker import compute_signals
from trajdiag.store import schema
from trajdiag.tasks.questions import Question, Scoring, Style

WORDS = ("Yes", "No", "maybe", "the", "is it")


@dataclass(frozen=True, kw_only=True)
class Quiz:
    """Questions of many lengths with 2 to 5 choices."""

    style: Style = "continuation"
    scoring: Scoring = "chars"
    choices: tuple[str, ...] = WORDS
    least: int = 2
    delimiter: str = " "
    class_names: tuple[str, ...] | None = None
    parts: dict[str, int] = field(default_factory=lambda: {"fit": 5, "val": 5, "test": 8})

    name = "quiz"

    def parameters(self) -> dict[str, Any]:
        return {"style": self.style, "choices": list(self.choices)}

    def notes(self) -> dict[str, Any]:
        return {}

    def questions(self) -> dict[str, list[Question]]:
        rng = np.random.default_rng(0)
        found = {}
        for split, count in self.parts.items():
            found[split] = []
            for i in range(count):
                number = int(rng.integers(self.least, len(self.choices) + 1))
                words = rng.choice(["Question", "What", "is", "x y", "7"], rng.integers(1, 14))
                found[split].append(
                    Question(
                        id=f"{split}-{i}",
                        prompt=f"Question: {' '.join(words)}?\nAnswer:",
                        choices=self.choices[:number],
                        answer=int(rng.integers(number)),
                        delimiter=self.delimiter,
                        group=f"g{i % 5}",
                        difficulty=float(len(words)),
                    )
                )
        return found


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_ouro(tmp_path_factory.mktemp("ouro") / "tiny")


@pytest.fixture(scope="module")
def model(folder):
    return loaded(folder)


@functools.cache
def alone(model, text: str):
    """The trace of a text run by itself."""
    return trace(model, [byte_tokenizer().encode(text).ids])


def in_order(task: Quiz) -> list[Question]:
    return [question for split in task.questions().values() for question in split]


def test_continuations_are_scored_by_the_log_probabilities_of_their_tokens(model, tmp_path):
    task = Quiz()
    store = extract(model, task, cache_dir=tmp_path, batch_tokens=200)
    tokenizer = byte_tokenizer()
    found = {name: store.scores(name) for name in ("sum", "tokens", "chars")}
    gates = store.numpy("gate_logit_continuation")
    for i, question in enumerate(in_order(task)):
        prompt = len(tokenizer.encode(question.prompt).ids)
        at_prompt = alone(model, question.prompt)
        np.testing.assert_allclose(store.numpy("hidden")[i], at_prompt.hidden[0, -1], atol=1e-5)
        np.testing.assert_allclose(
            store.numpy("gate_logit")[i], at_prompt.gate_logit[0, -1], atol=1e-5
        )
        scored = []
        for c, choice in enumerate(question.choices):
            tokens = tokenizer.encode(f"{question.prompt} {choice}").ids
            whole = alone(model, f"{question.prompt} {choice}")
            log_p = log_softmax(whole.logits[0].double().numpy(), axis=-1)
            each = [log_p[p - 1, :, tokens[p]] for p in range(prompt, len(tokens))]
            scored.append(whole.gate_logit[0, prompt - 1 : len(tokens) - 1])
            total = np.sum(each, axis=0)
            by_score = {"sum": 1, "tokens": len(each), "chars": len(choice)}
            for name, length in by_score.items():
                np.testing.assert_allclose(found[name][i, :, c], total / length, atol=1e-5)
        assert (store.numpy("logits")[i, :, len(question.choices) :] == np.float32(PADDED)).all()
        np.testing.assert_allclose(gates[i], torch.cat(scored).mean(0), atol=1e-5)
    np.testing.assert_array_equal(store.numpy("logits"), found["chars"])
    assert store.target.tolist() == [question.answer for question in in_order(task)]
    assert len(set(store.group.tolist())) == 5


def test_letters_are_scored_by_their_logits_at_the_prompts_last_token(model, tmp_path):
    task = Quiz(style="letter", choices=("A", "B", "C", "D"))
    store = extract(model, task, cache_dir=tmp_path)
    assert store.score_names == ()
    tokenizer = byte_tokenizer()
    for i, question in enumerate(in_order(task)):
        z = alone(model, question.prompt).logits[0, -1]
        for c, choice in enumerate(question.choices):
            (token,) = tokenizer.encode(f" {choice}").ids
            np.testing.assert_allclose(store.numpy("logits")[i, :, c], z[:, token], atol=1e-5)


def test_what_all_choices_share_is_prompt(tmp_path):
    model = loaded(tiny_ouro(tmp_path / "tiny", spaced=False))
    task = Quiz(style="letter", choices=("A", "B", "C"))
    store = extract(model, task, cache_dir=tmp_path)
    for i, question in enumerate(in_order(task)):
        ids = byte_tokenizer(spaced=False).encode(question.prompt + " ").ids
        traced = trace(model, [ids])
        np.testing.assert_allclose(store.numpy("hidden")[i], traced.hidden[0, -1], atol=1e-5)


def test_letters_and_continuations_agree_where_every_choice_is_one_token(model, tmp_path):
    stores = [
        extract(model, Quiz(style=style, choices=("A", "B", "C", "D")), cache_dir=tmp_path / style)
        for style in ("letter", "continuation")
    ]
    letter, continuation = (softmax(store.numpy("logits").astype(float), -1) for store in stores)
    np.testing.assert_allclose(letter, continuation, atol=1e-6)
    np.testing.assert_array_equal(stores[0].numpy("hidden"), stores[1].numpy("hidden"))
    assert stores[0].cross_entropy() == pytest.approx(stores[1].cross_entropy(), abs=1e-5)
    np.testing.assert_allclose(
        stores[1].numpy("gate_logit_continuation"), stores[1].numpy("gate_logit"), atol=1e-6
    )


@pytest.mark.parametrize("style", ["letter", "continuation"])
def test_no_signal_sees_the_classes_that_a_question_does_not_have(model, tmp_path, style):
    task = Quiz(style=style, choices=("A", "B", "C", "D"))
    store = extract(model, task, cache_dir=tmp_path)
    hidden, logits = store.torch("hidden"), store.torch("logits")
    for i, question in enumerate(in_order(task)):
        chosen = logits[i : i + 1, :, : len(question.choices)]
        own = compute_signals(hidden[i : i + 1], chosen, store.signal_names)
        for name, values in own.items():
            np.testing.assert_allclose(store.signal(name)[i], values[0], rtol=1e-6, err_msg=name)
    assert (store.predictions() < [[len(q.choices)] for q in in_order(task)]).all()


def test_the_mean_state_is_over_the_prompt(model, tmp_path):
    task = Quiz()
    store = extract(model, task, cache_dir=tmp_path, pool="mean")
    for i, question in enumerate(in_order(task)):
        mean = alone(model, question.prompt).hidden[0].mean(0)
        np.testing.assert_allclose(store.numpy("hidden")[i], mean, atol=1e-5)


@pytest.mark.parametrize("style", ["letter", "continuation"])
@pytest.mark.parametrize("logits", ["full", "topk:7", "auto"])
def test_the_vocabulary_at_the_decision_is_kept(model, tmp_path, style, logits):
    task = Quiz(style=style, choices=("A", "B", "C", "D"))
    lines: list[str] = []
    store = extract(model, task, cache_dir=tmp_path, logits=logits, progress=lines.append)
    for i, question in enumerate(in_order(task)):
        z = alone(model, question.prompt).logits[0, -1].double().numpy()
        log_p = z - logsumexp(z, axis=1, keepdims=True)
        (token,) = byte_tokenizer().encode(f" {question.choices[question.answer]}").ids
        expected = {
            "log_sum_exp": logsumexp(z, axis=1),
            "entropy": -(np.exp(log_p) * log_p).sum(1),
            "target_log_probability": log_p[:, token],
        }
        for name, values in expected.items():
            np.testing.assert_allclose(store.numpy(f"vocabulary/{name}")[i], values, atol=1e-5)
        if logits == "topk:7":
            order = np.argsort(-z, axis=1)[:, :7]
            np.testing.assert_array_equal(store.numpy("vocabulary/top_ids")[i], order)
            np.testing.assert_allclose(
                store.numpy("vocabulary/top_logits")[i], np.take_along_axis(z, order, 1), atol=1e-5
            )
        else:
            np.testing.assert_allclose(store.numpy("vocabulary/logits")[i], z, atol=1e-5)
    said = {"full": "full (as asked)", "topk:7": "topk:7 (as asked)", "auto": "full (0.00 GiB"}
    assert said[logits] in lines[0]
    assert "GiB are free" in lines[1]


def test_a_small_budget_keeps_the_top_64(model, tmp_path):
    store = extract(model, Quiz(), cache_dir=tmp_path, logits_budget=1e-9)
    assert store.numpy("vocabulary/top_ids").shape == (18, 4, 64)


@pytest.mark.parametrize("logits", ["topk:0", "topk:321", "topk:x", "some", "full:2"])
def test_other_choices_of_logits_are_refused(model, tmp_path, logits):
    with pytest.raises(ConfigError, match=r"logits must be auto, full, none or topk:K.*, got "):
        extract(model, Quiz(), cache_dir=tmp_path, logits=logits)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Quiz(style="letter"), r"question fit-\d+ .* choice '.*' is not one token of its own"),
        (
            Quiz(choices=("Yes", " ")),
            r"split fit, question 'fit-0' \(number 1\): choice 1 is empty",
        ),
        (Quiz(choices=("Yes",), least=1), r"needs at least 2 choices, got 1"),
        (Quiz(parts={"fit": 3, "val": 3}), r"task quiz has no test questions"),
        (Quiz(parts={"test": 3, "dev": 3}), r"task quiz has splits dev; known are fit, val, test"),
    ],
)
def test_questions_that_cannot_be_asked_are_named(model, tmp_path, task, message):
    with pytest.raises(ConfigError, match=message):
        extract(model, task, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


class TestPromptsLongerThanTheContext:
    @pytest.fixture
    def short(self, tmp_path):
        return loaded(tiny_ouro(tmp_path / "short", max_position_embeddings=30))

    def lengths(self, task: Quiz) -> list[int]:
        tokens = byte_tokenizer()
        return [
            max(len(tokens.encode(f"{q.prompt} {c}").ids) - 1 for c in q.choices)
            for q in in_order(task)
        ]

    def test_are_refused_by_name(self, short, tmp_path):
        task = Quiz()
        first = next(i for i, n in enumerate(self.lengths(task)) if n > 30)
        said = rf"question {in_order(task)[first].id} \(number {first + 1}\) .* has \d+ tokens"
        with pytest.raises(ConfigError, match=said + ", the model takes 30; --truncate"):
            extract(short, task, cache_dir=tmp_path)

    def test_are_left_out_and_counted(self, short, tmp_path):
        task, lines = Quiz(), []
        store = extract(short, task, cache_dir=tmp_path, skip=True, progress=lines.append)
        fitting = [i for i, n in enumerate(self.lengths(task)) if n <= 30]
        assert store.ids.tolist() == [in_order(task)[i].id for i in fitting]
        skipped = 18 - len(fitting)
        assert 0 < skipped < 18
        assert store.record.task["notes"] == {"skipped": skipped}
        assert lines[0] == f"{skipped} prompts longer than the model's 30 tokens were left out"

    def test_are_cut_from_the_left_and_counted(self, short, tmp_path):
        task, lines = Quiz(), []
        store = extract(short, task, cache_dir=tmp_path, truncate=True, progress=lines.append)
        longer = [i for i, n in enumerate(self.lengths(task)) if n > 30]
        assert store.record.task["notes"] == {"truncated": len(longer)}
        tokenizer = byte_tokenizer()
        question = in_order(task)[longer[0]]
        prompt = len(tokenizer.encode(question.prompt).ids)
        tokens = tokenizer.encode(f"{question.prompt} {question.choices[0]}").ids
        z = trace(short, [tokens[:-1][-30:]]).logits[0].double().numpy()
        log_p = log_softmax(z, axis=-1)
        each = [log_p[p - len(tokens), :, tokens[p]] for p in range(prompt, len(tokens))]
        total = np.sum(each, axis=0)
        np.testing.assert_allclose(store.scores("sum")[longer[0], :, 0], total, atol=1e-5)


def test_a_model_without_a_tokenizer_is_not_asked(tmp_path, folder):
    (folder / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    try:
        with pytest.raises(ConfigError, match=r"task quiz is in text, and model tiny has no token"):
            extract(loaded(folder), Quiz(), cache_dir=tmp_path)
    finally:
        (tmp_path / "tokenizer.json").rename(folder / "tokenizer.json")
