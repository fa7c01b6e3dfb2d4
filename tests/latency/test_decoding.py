"""Given text, decoded: which examples are read, and how faults in it are told."""

import numpy as np
import pytest
import torch

from tests.extraction.test_documents import Notes
from tests.language_models import loaded, tiny_ouro
from tests.latency.replay import Frozen, documents
from trajdiag.errors import NonFiniteError
from trajdiag.extraction.documents import document_work
from trajdiag.extraction.encoder import Encoder
from trajdiag.latency.cached_rows import require_caching
from trajdiag.latency.decoding import decode_given
from trajdiag.latency.rule import live_rule


@pytest.fixture(scope="module")
def frozen(tmp_path_factory) -> Frozen:
    home = tmp_path_factory.mktemp("home")
    return documents(loaded(tiny_ouro(home / "tiny")), home / "d.zarr")


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
def test_that_never_leaves_predicts_what_the_store_has_of_the_last_loop(frozen, context):
    rule = live_rule(frozen.model, "entropy", float("nan"), loops=4)
    found = decode_given(require_caching(frozen.model), frozen.work, rule, context, batch_tokens=90)
    np.testing.assert_array_equal(found.prediction, frozen.store.predictions()[:, -1])
    assert (found.exit_depth == 4).all() and (found.depth, found.loops_run) == (4, 4)
    assert found.tokens == len(frozen.work.tokens)


def test_examples_are_a_sample_of_the_tokens_and_the_mean_depth_is_of_all(frozen):
    model = require_caching(frozen.model)
    rule = live_rule(model, "native", 0.6, loops=4)
    whole = decode_given(model, frozen.work, rule, "copy-last", batch_tokens=90)
    encode = Encoder(model.tokenizer, model.vocab_size)
    some = document_work(Notes(every=3), encode, 512, inputs=False)
    found = decode_given(model, some, rule, "copy-last", batch_tokens=90)
    exits = zip(whole.exit_depth, whole.prediction, strict=True)
    by_id = dict(zip(frozen.work.columns.id, exits, strict=True))
    of_examples = [by_id[name] for name in some.columns.id]
    assert list(zip(found.exit_depth, found.prediction, strict=True)) == of_examples
    # a window ends with the last token that is read in it
    ends = {name.split("/")[0]: int(name.split("/")[1]) for name in some.columns.id}
    depths = [
        depth
        for name, (depth, _) in by_id.items()
        if int(name.split("/")[1]) <= ends.get(name.split("/")[0], -1)
    ]
    assert found.tokens == len(depths) > len(of_examples)
    assert found.depth == found.loops_run == pytest.approx(np.mean(depths))


def test_what_is_not_finite_is_named_with_its_example(frozen):
    model = require_caching(loaded(tiny_ouro(frozen.store.path.parent / "faulty")))
    row = 1
    start = frozen.work.row_start[row]
    token = int(frozen.work.tokens[start + 2])
    assert token not in frozen.work.tokens[start : start + 2]
    with torch.no_grad():
        model.decoder.model.embed_tokens.weight[token] = torch.nan
    rule = live_rule(model, "native", 30, loops=4)
    work = frozen.work.only(np.array([row]))
    said = f"position 3 of the row of example {work.columns.id[0]} at loop 1 is NaN"
    with pytest.raises(NonFiniteError, match=said):
        decode_given(model, work, rule, "recompute", batch_tokens=90)
