"""A user's own looped model, named as package.module:Class or given as an object."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.models.own_model import TinyLooped
from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.models.base import LoopedModel, ModelRecord, logits
from trajdiag.models.own import require_model
from trajdiag.models.registry import load_model
from trajdiag.models.tracing import trace

NAME = "tests.models.own_model:TinyLooped"
IDS = torch.tensor([[5, 9, 2, 7], [1, 1, 3, 0]])


def states(model: LoopedModel, ids: Tensor) -> list[Tensor]:
    state, found = model.begin(ids), []
    for _ in range(model.loops):
        state = model.step(state)
        found.append(model.hidden(state))
    return found


def test_a_class_by_name_and_an_object_are_the_same_model():
    named, given = load_model(NAME), require_model(TinyLooped())
    assert named.record == given.record
    assert (named.record.name, named.record.family, named.record.source) == (
        "TinyLooped",
        "own",
        NAME,
    )
    with torch.no_grad():
        for a, b in zip(states(named, IDS), states(given, IDS), strict=True):
            assert torch.equal(a, b)


def test_the_example_is_causal_and_every_loop_moves_it():
    model = load_model(NAME)
    changed = IDS.clone()
    changed[:, -1] = 11
    with torch.no_grad():
        before, after = states(model, IDS), states(model, changed)
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a[:, :-1], b[:, :-1], rtol=1e-5, atol=1e-6)
        assert not torch.allclose(a[:, -1], b[:, -1])
    assert all((a - b).norm() > 0.1 for a, b in pairwise(before))


def test_what_the_class_leaves_out_has_the_protocols_values():
    model = load_model(NAME)
    assert (model.has_gate, model.padding, model.max_positions, model.tokenizer) == (
        False,
        frozenset(),
        None,
        None,
    )
    at = (torch.tensor([0, 1]), torch.tensor([3, 2]))
    with torch.no_grad():
        state = model.step(model.begin(IDS))
        assert model.gate_logit(state) is None
        assert torch.equal(model.head_input(state, at), model.hidden(state)[at])
        torch.testing.assert_close(logits(model, state, at), logits(model, state)[at])


def test_it_is_traced_like_any_other():
    traced = trace(load_model(NAME), IDS)
    with torch.no_grad():
        wanted = states(TinyLooped().eval(), IDS)
    for loop, state in enumerate(wanted):
        torch.testing.assert_close(traced.hidden[:, :, loop], state)


def test_its_dropout_is_off():
    model = TinyLooped()
    assert model.training and not require_model(model).training


def test_other_weights_are_another_model():
    other = TinyLooped()
    with torch.no_grad():
        other.norm.bias[0] = 1e-3
    assert require_model(other).record.sha256 != require_model(TinyLooped()).record.sha256


def test_a_record_of_its_own_is_kept():
    model = TinyLooped()
    record = ModelRecord(
        name="mine", family="own", source="local", revision=None, config={"a": 1}, sha256="0" * 64
    )
    model.record = record
    assert require_model(model).record is record


def test_all_that_is_missing_or_wrong_is_on_one_line():
    class Half(nn.Module, LoopedModel):
        loops, d_model = 0, 8
        device, dtype = "cpu", torch.float32
        has_gate = True
        step = None

        def begin(self, input_ids, attention_mask=None, position_ids=None):
            return input_ids

    with pytest.raises(ConfigError) as raised:
        require_model(Half())
    said = str(raised.value)
    assert "Half is not a looped model: loops must be an integer from 1 to 4096, not 0" in said
    assert "vocab_size must be an integer from 1 (missing)" in said
    assert "device must be a torch.device, not 'cpu'" in said
    for method in ("step", "hidden", "head", "gate_logit"):
        assert f"{method} must be a method (missing)" in said
    assert "begin must" not in said and "head_input must" not in said and "\n" not in said


def test_what_is_no_object_of_a_class_is_refused():
    with pytest.raises(ConfigError, match=r"is a class: give an object of it, TinyLooped\(\)"):
        require_model(TinyLooped)
    with pytest.raises(ConfigError, match="builtins:int is not a looped model: loops must be"):
        require_model(3)


def test_a_model_without_weights_must_say_what_it_is():
    class Weightless(TinyLooped):
        def state_dict(self, *args, **kwargs):
            return {}

    with pytest.raises(ConfigError, match=r"holds no floating-point tensors .* give it a `record`"):
        require_model(Weightless())


USERS_OWN = """
import torch
from tests.models.own_model import TinyLooped

class Placed(TinyLooped):
    def __init__(self, *, device, dtype=None):
        super().__init__()
        self.dtype = dtype or torch.float32
        self.to(self.dtype)
        self.asked = (device, dtype)

class Broken(TinyLooped):
    def __init__(self):
        super().__init__()
        torch.zeros(2) @ torch.zeros(3)

class Leaves(TinyLooped):
    def __init__(self):
        raise SystemExit("bye")
"""


@pytest.fixture
def users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "users_looped.py").write_text(USERS_OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("users_folder")
def test_a_class_in_the_current_folder_is_told_device_and_dtype_if_it_asks():
    model = load_model("users_looped:Placed", device="cpu", dtype="bfloat16")
    assert model.asked == (torch.device("cpu"), torch.bfloat16)
    assert load_model("users_looped:Placed", device="cpu").asked[1] is None


def test_a_class_that_does_not_ask_must_be_what_the_user_wants():
    with pytest.raises(ConfigError, match=r"computes in torch.float32: let its class take `dtype`"):
        load_model(NAME, dtype="bfloat16")
    assert load_model(NAME, device="cpu", dtype="float32").dtype == torch.float32


@pytest.mark.usefixtures("users_folder")
def test_what_the_users_code_raises_says_where():
    # Line 15 of the user's file, not the line in torch.
    with pytest.raises(
        ConfigError, match=r"users_looped:Broken failed: RuntimeError: .*looped\.py:15\)"
    ):
        load_model("users_looped:Broken")
    with pytest.raises(ConfigError, match=r"users_looped:Leaves failed: SystemExit: bye"):
        load_model("users_looped:Leaves")
    with pytest.raises(
        UnknownNameError,
        match=r"'Brocken', did you mean Broken\? existing: Broken, Leaves, Placed$",
    ):
        load_model("users_looped:Brocken")
    with pytest.raises(ConfigError, match=r"no module nowhere, neither in .* nor among the inst"):
        load_model("nowhere:Model")


def test_options_of_other_models_are_refused():
    with pytest.raises(ConfigError, match="a revision is for models from the hub"):
        load_model(NAME, revision="main")
    with pytest.raises(ConfigError, match=r"an initial state is not for .*TinyLooped"):
        load_model(NAME, initial_state="zeros")


@pytest.mark.parametrize("fault", [RuntimeError("no\nluck"), SystemExit(3)], ids=["error", "exit"])
@pytest.mark.parametrize("method", ["eval", "state_dict", "begin", "step", "hidden", "head"])
def test_whatever_its_code_does_tracing_says_which_method_in_one_line(method, fault):
    def broken(*_, **__):
        raise fault

    model = TinyLooped()
    setattr(model, method, broken)
    with pytest.raises(ConfigError, match=r"failed: (RuntimeError: no luck|SystemExit: 3) \(test_"):
        trace(model, IDS)


def test_a_dtype_that_no_store_holds_and_endless_loops_are_refused():
    model = TinyLooped()
    model.dtype, model.loops = torch.float64, 2**28
    with pytest.raises(ConfigError, match=r"from 1 to 4096, not 268435456; dtype must be torch\.f"):
        require_model(model)
