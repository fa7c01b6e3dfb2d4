"""Which device `auto` is."""

import pytest
import torch

from trajdiag.models.devices import named_device


@pytest.fixture
def four_gpus(monkeypatch):
    """As far as the choice goes: nothing is computed."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for name in ("LOCAL_RANK", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_gpu_it_is_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert named_device("auto") == torch.device("cpu")


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        ({}, 0),
        ({"LOCAL_RANK": "3"}, 3),
        ({"SLURM_LOCALID": "2"}, 2),
        ({"LOCAL_RANK": "1", "SLURM_LOCALID": "2"}, 1),
        ({"LOCAL_RANK": "5"}, 1),
    ],
)
def test_processes_of_one_machine_share_its_gpus(four_gpus, monkeypatch, environment, index):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert named_device("auto") == torch.device("cuda", index)
