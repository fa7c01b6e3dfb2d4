"""What the families that transformers implements share. Their reference is transformers' own
forward of the same weights, configured for another number of loops."""

import hashlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from tests.models.tiny_native import FAMILIES, LOOPS, opened, published_logits, tiny
from trajdiag.errors import CheckpointError, ConfigError, NonFiniteError
from trajdiag.models.base import LoopedModel, logits
from trajdiag.models.inputs import checked_inputs
from trajdiag.models.native import NativeModel, attention_mask
from trajdiag.models.native_weights import quiet, refuse_unsupported, require_family

WEIGHTS = "model.safetensors"
HEADS = {
    "dory": "lm_head.weight",
    "hrm_text": "lm_head.weight",
    "inkling2_loop_text": "model.llm.unembed.weight",
}
"""The head's name in the file, which is not always its name in the module."""
LARGE: dict[str, dict[str, Any]] = {
    "dory": {
        "intermediate_size": 2048,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "hrm_text": {"num_hidden_layers": 14, "intermediate_size": 2048},
    "inkling2_loop_text": {
        "moe_intermediate_size": 640,
        "layer_types": ["hybrid_sliding", "hybrid"] * 12,
    },
}
"""What makes a model of about a hundred million parameters, with `hidden_size` 512."""
IDS = torch.randint(0, 50, (3, 11), generator=torch.Generator().manual_seed(1))
"""Rows longer than the tiny models' attention windows."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(family, tmp_path_factory.mktemp(family))


@pytest.fixture(scope="module")
def model(family: str, folder: Path) -> NativeModel:
    return opened(family, folder)


def every_loop(model: NativeModel, ids: Tensor, mask: Tensor | None, loops: int) -> list[Tensor]:
    """Logits [row, position, vocab] of each loop."""
    with torch.inference_mode():
        state = model.begin(ids, mask)
        found = []
        for _ in range(loops):
            state = model.step(state)
            found.append(logits(model, state))
    return found


def test_each_loop_is_the_output_of_a_model_configured_for_so_many(
    family: str, folder: Path, model: NativeModel
) -> None:
    found = every_loop(model, IDS, None, loops=5)
    for loop in (1, 2, 3, 5):
        torch.testing.assert_close(
            found[loop - 1], published_logits(family, folder, loop, IDS), rtol=0, atol=1e-6
        )
    changes = [(a - b).abs().max() for a, b in itertools.pairwise(found)]
    assert min(changes) > 0.01  # The comparison would miss a loop that did nothing.


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_rows_are_what_they_are_alone(model: NativeModel, side: str) -> None:
    assert side in model.padding
    lengths = [11, 6, 1]
    ids, mask = padded(lengths, side)
    together = every_loop(model, ids, mask, loops=4)
    for row, length in enumerate(lengths):
        alone = every_loop(model, IDS[row : row + 1, :length], None, loops=4)
        for loop in range(4):
            torch.testing.assert_close(
                together[loop][row][mask[row].bool()], alone[loop][0], rtol=1e-5, atol=5e-5
            )


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_holds_no_nan_and_its_tokens_do_not_matter(model: NativeModel, side: str) -> None:
    ids, mask = padded([11, 6, 1], side)
    found = every_loop(model, ids, mask, loops=3)[-1]
    assert found.isfinite().all()
    other = every_loop(model, ids.where(mask.bool(), 49), mask, loops=3)[-1]
    torch.testing.assert_close(found[mask.bool()], other[mask.bool()], rtol=1e-5, atol=5e-5)


def test_padded_rows_are_what_transformers_makes_of_them(
    family: str, folder: Path, model: NativeModel
) -> None:
    ids, mask = padded([11, 6, 3], "left")
    expected = published_logits(family, folder, 3, ids, mask)[mask.bool()]
    found = every_loop(model, ids, mask, loops=3)[-1][mask.bool()]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_padding_is_never_left_with_nothing_to_attend_to(model: NativeModel) -> None:
    """A softmax over nothing is NaN in some versions of torch, and NaN spreads."""
    ids, mask = padded([11, 6, 1], "left")
    embedded = model.network.model.embed_tokens(ids)
    inputs = checked_inputs(ids, mask, None, name="tiny", vocab_size=50, device=torch.device("cpu"))
    allowed = attention_mask(model.network.model, embedded, inputs, sliding=False)
    if allowed.dtype == torch.bool:  # Eager attention adds its mask: no softmax is over nothing.
        seen = torch.ones(11, 11).tril().bool() & mask[:, None].bool() | torch.eye(11).bool()
        assert torch.equal(allowed[:, 0], seen)
    else:
        assert allowed.isfinite().all()


def test_bfloat16_states_are_transformers_own(family: str, tmp_path: Path) -> None:
    """To the bit: what a family keeps in float32 is kept, and what it rounds is rounded."""
    tiny(family, tmp_path, dtype=torch.bfloat16)
    with quiet(), torch.inference_mode():
        published = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
        expected = published.model(IDS, attention_mask=torch.ones_like(IDS), use_cache=False)
    model = opened(family, tmp_path)
    with torch.inference_mode():
        state = model.begin(IDS)
        for _ in range(model.loops):
            state = model.step(state)
        assert torch.equal(model.head_input(state), expected.last_hidden_state)


def test_given_positions_are_used(model: NativeModel) -> None:
    with torch.inference_mode():
        counted = model.step(model.begin(IDS))
        spread = model.step(model.begin(IDS, None, 3 * torch.arange(11).expand(3, -1)))
    assert (logits(model, counted) - logits(model, spread)).abs().max() > 1e-3


def test_some_positions_are_read_as_all_are(model: NativeModel) -> None:
    at = torch.tensor([0, 2, 2]), torch.tensor([4, 0, 10])
    with torch.inference_mode():
        state = model.step(model.step(model.begin(IDS)))
        assert torch.equal(model.hidden(state, at), model.hidden(state)[at])
        assert torch.equal(model.head_input(state, at), model.head_input(state)[at])
        assert model.hidden(state).shape == (3, 11, model.d_model)


def test_it_says_what_it_is(family: str, folder: Path, model: NativeModel) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert isinstance(model, LoopedModel)
    assert (model.loops, model.d_model, model.vocab_size, model.max_positions) == (3, 32, 50, 64)
    assert not model.has_gate
    assert model.gate_logit(model.begin(IDS)) is None
    assert (model.record.family, model.record.source) == (family, "local")
    assert model.record.config == config
    assert model.loops == config[LOOPS[family]]


def test_the_record_has_the_hash_of_the_stored_tensors(folder: Path, model: NativeModel) -> None:
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(folder / WEIGHTS).items()):
        digest.update(json.dumps([name, "F32", list(tensor.shape)]).encode())
        digest.update(tensor.numpy().tobytes())
    assert model.record.sha256 == digest.hexdigest()


@pytest.mark.parametrize(
    ("stored", "asked", "computed"),
    [
        (torch.bfloat16, None, torch.bfloat16),
        (torch.float16, None, torch.float32),
        (torch.float32, torch.bfloat16, torch.bfloat16),
        (torch.bfloat16, torch.float32, torch.float32),
    ],
)
def test_the_dtype_is_the_checkpoints_unless_it_is_asked_for(
    family: str,
    tmp_path: Path,
    stored: torch.dtype,
    asked: torch.dtype | None,
    computed: torch.dtype,
) -> None:
    model = opened(family, tiny(family, tmp_path, dtype=stored), asked)
    assert model.dtype == computed
    with torch.inference_mode():
        state = model.step(model.begin(IDS))
    assert model.hidden(state).dtype == computed
    assert logits(model, state).dtype == torch.float32


def test_a_bfloat16_head_multiplies_in_float32(family: str, tmp_path: Path) -> None:
    model = opened(family, tiny(family, tmp_path, dtype=torch.bfloat16))
    x = torch.randn(5, model.d_model, generator=torch.Generator().manual_seed(0)).bfloat16()
    products = x.double() @ model.network.lm_head.weight.double().T
    head = model.network.lm_head
    if family == "dory":
        products *= head.logit_scale.double() * head.logit_scale_factor
    if family == "inkling2_loop_text":
        products = 30 * torch.tanh(products / 30)
    torch.testing.assert_close(model.head(x).double(), products, rtol=1e-6, atol=1e-5)


def test_nan_in_the_weights_is_named(family: str, tmp_path: Path) -> None:
    path = tiny(family, tmp_path) / WEIGHTS
    tensors = load_file(path)
    tensors[HEADS[family]][2, 3] = float("nan")
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(NonFiniteError, match=rf"{HEADS[family]} is not finite, first at \[2, 3\]"):
        opened(family, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors, head: tensors.pop(head), "missing lm_head.weight"),
        (lambda tensors, head: tensors.update(more=torch.ones(2)), "unexpected more"),
        (lambda tensors, head: tensors.update({head: torch.ones(3, 32)}), "misshapen lm_head.weig"),
        (lambda tensors, head: tensors.update(more=torch.ones(2).char()), "more is I8"),
    ],
    ids=["missing", "unexpected", "misshapen", "whole numbers"],
)
def test_tensors_that_do_not_fit_are_named(
    family: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Any, said: str
) -> None:
    path = tiny(family, tmp_path) / WEIGHTS
    tensors = load_file(path)
    change(tensors, HEADS[family])
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=said):
        opened(family, tmp_path)
    assert capfd.readouterr().err == ""


def test_more_layers_than_tensors_are_refused_before_they_are_built(
    family: str, tmp_path: Path
) -> None:
    path = tiny(family, tmp_path) / "config.json"
    content = json.loads(path.read_text())
    many = {"num_hidden_layers": 100_000, "num_layers_per_stack": 100_000}
    many |= {"layer_types": None, "n_recurrent_layers": None}
    path.write_text(json.dumps(content | {key: many[key] for key in many if key in content}))
    with pytest.raises(CheckpointError, match=r"0000 layers, but there are only \d+ tensors"):
        opened(family, tmp_path)


def test_only_safetensors_are_read(family: str, tmp_path: Path) -> None:
    path = tiny(family, tmp_path) / WEIGHTS
    torch.save(load_file(path), tmp_path / "pytorch_model.bin")
    path.unlink()
    with pytest.raises(CheckpointError, match="only safetensors are read"):
        opened(family, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"hidden_size": "wide"}, "hidden_size"), ({"head_dim": 0}, "ZeroDivisionError")],
)
def test_a_config_that_transformers_refuses_is_one_line(
    family: str, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = tiny(family, tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=said) as caught:
        opened(family, tmp_path)
    assert "\n" not in str(caught.value)


def test_no_loops_are_refused(family: str, tmp_path: Path) -> None:
    path = tiny(family, tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {LOOPS[family]: 0}))
    with pytest.raises(CheckpointError, match=r"0 loops|must be at least 1"):
        opened(family, tmp_path)


def test_unknown_tokens_are_refused(model: NativeModel) -> None:
    with pytest.raises(ConfigError, match=r"tiny has a vocabulary of 50 \(0 to 49\)"):
        model.begin(torch.tensor([[0, 50]]))


def test_masks_of_another_shape_are_refused(model: NativeModel) -> None:
    with pytest.raises(ConfigError, match=r"shape of input_ids, \[3, 11\], not \[3, 10\]"):
        model.begin(IDS, torch.ones(3, 10))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"is_causal": False}, "is_causal"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling of type 'dynamic'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "longrope"}}},
            "rope_parameters of type 'longrope'",
        ),
    ],
)
def test_options_that_stepping_would_get_wrong_are_refused(
    option: dict[str, Any], said: str
) -> None:
    refuse_unsupported({"rope_parameters": {"rope_type": "yarn"}, "is_causal": True})
    with pytest.raises(CheckpointError, match=said):
        refuse_unsupported(option)


def test_an_old_transformers_is_refused_with_the_command_that_helps() -> None:
    require_family("dory", "5.24.0", ["dory"])
    require_family("dory", "6.0.0.dev0", ["dory"])
    for installed in ("4.57.1", "5.9.0"):
        with pytest.raises(CheckpointError) as caught:
            require_family("dory", installed, ["dory"])
        assert str(caught.value) == (
            f"dory models need transformers 5.24 or later, and {installed} is installed: "
            'pip install -U "transformers>=5.24"'
        )


def test_a_transformers_without_the_family_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"5\.30\.0 is installed and does not"):
        require_family("dory", "5.30.0", ["llama"])


def test_opening_and_running_say_nothing(
    family: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = (
        "import sys, torch; from pathlib import Path; "
        "from tests.models.tiny_native import opened; "
        "model = opened(sys.argv[1], Path(sys.argv[2])); "
        "model.step(model.begin(torch.tensor([[1, 2, 3]])))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, family, folder], check=True)
    assert capfd.readouterr() == ("", "")


def padded(lengths: list[int], side: str) -> tuple[Tensor, Tensor]:
    """The first tokens of IDS' rows, and their mask, both [row, position]."""
    width = max(lengths)
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        places = slice(width - length, None) if side == "left" else slice(0, length)
        ids[row, places] = IDS[row, :length]
        mask[row, places] = 1
    return ids, mask


MEASURED = """
import sys, torch
from pathlib import Path
from tests.models.tiny_native import opened

def kibibytes(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

family, small, large = sys.argv[1:]
opened(family, Path(small))  # What importing takes is not the weights'.
for dtype in (torch.bfloat16, torch.float32):  # The highest mark rises only with the larger.
    before = kibibytes("VmRSS")
    model = opened(family, Path(large), dtype)
    weights = sum(tensor.nbytes for tensor in model.network.parameters()) / 1024
    print((kibibytes("VmHWM") - before) / weights)
    del model
"""


@pytest.fixture(scope="module")
def large(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MB in bfloat16, in many tensors, as large models have them."""
    sizes: dict[str, Any] = {"hidden_size": 512, "num_hidden_layers": 24, "vocab_size": 4000}
    folder = tmp_path_factory.mktemp(f"large-{family}")
    tiny(family, folder, dtype=torch.bfloat16, **sizes | LARGE[family])
    assert 150e6 < (folder / WEIGHTS).stat().st_size < 300e6
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's process status")
def test_opening_holds_one_copy_of_the_weights(family: str, folder: Path, large: Path) -> None:
    """Of what is computed in, whether it is what the file holds or not."""
    command = [sys.executable, "-c", MEASURED, family, folder, large]
    measured = subprocess.run(command, check=True, capture_output=True, text=True)
    as_stored, widened = map(float, measured.stdout.split())
    assert as_stored <= 1.25
    # transformers interleaves Inkling's experts, and the allocator keeps what that leaves free.
    assert widened <= (1.4 if family == "inkling2_loop_text" else 1.25)
