"""Which configurations of the families that transformers implements are refused unopened."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from trajdiag.errors import CheckpointError
from trajdiag.models.native_config import refuse_unsupported, require_family


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


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Lets transformers be of a version, with one family of causal language models."""

    # as they are now: other tests load transformers anew
    transformers = importlib.import_module("transformers")
    modeling_auto = importlib.import_module("transformers.models.auto.modeling_auto")

    def installed(version: str, family: str) -> None:
        monkeypatch.setattr(transformers, "__version__", version)
        monkeypatch.setattr(modeling_auto, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", {family: "Fish"})

    return installed


def test_an_old_transformers_is_refused_with_the_command_that_helps(
    install: Callable[[str, str], None],
) -> None:
    for installed in ("5.24.0", "6.0.0.dev0"):
        install(installed, "dory")
        require_family("dory")
    for installed in ("4.57.1", "5.9.0"):
        install(installed, "dory")
        with pytest.raises(CheckpointError) as caught:
            require_family("dory")
        assert str(caught.value) == (
            f"dory models need transformers 5.24 or later, and {installed} is installed: "
            'pip install -U "transformers>=5.24"'
        )


def test_a_transformers_without_the_family_is_refused(
    install: Callable[[str, str], None],
) -> None:
    install("5.30.0", "llama")
    with pytest.raises(CheckpointError, match=r"5\.30\.0 is installed and does not"):
        require_family("dory")
