"""Memory of short loops: one step's at a time, however steps follow one another."""

import copy

import pytest
import torch
from torch import Tensor

from tests.models.random_ouro import random_decoder
from trajdiag.models.decoder import OuroDecoder

SHAPES = {"long": ((3, 5), (1, 2)), "short": ((2, 3),), "wide": ((9, 5),)}


def read(decoder: OuroDecoder, name: str) -> Tensor:
    """All states of a batch of this shape, drawn for it."""
    generator = torch.Generator().manual_seed(len(name))
    groups = [torch.randint(0, 13, shape, generator=generator) for shape in SHAPES[name]]
    tokens = sum(rows * positions for rows, positions in SHAPES[name])
    return decoder.read_packed(groups, torch.arange(tokens))


def gradient(states: Tensor, decoder: OuroDecoder, **options: bool) -> list[Tensor]:
    return list(
        torch.autograd.grad(states.square().sum(), list(decoder.model.parameters()), **options)
    )


def alone(name: str) -> tuple[Tensor, list[Tensor]]:
    """States and gradients of a model that has seen no other batch."""
    decoder = random_decoder(gate="none")
    states = read(decoder, name)
    return states.detach(), gradient(states, decoder)


@pytest.mark.parametrize("name", SHAPES)
def test_a_step_does_not_know_the_shapes_of_those_before_it(name):
    decoder = random_decoder(gate="none")
    for before in (*SHAPES, *SHAPES):
        gradient(read(decoder, before), decoder)
    states = read(decoder, name)
    expected, of_expected = alone(name)
    assert torch.equal(states, expected)
    for found, wanted in zip(gradient(states, decoder), of_expected, strict=True):
        assert torch.equal(found, wanted)


def test_two_steps_can_be_under_way_at_once():
    decoder = random_decoder(gate="none")
    one, other = read(decoder, "long"), read(decoder, "wide")
    for states, name in ((one, "long"), (other, "wide")):
        for found, wanted in zip(gradient(states, decoder), alone(name)[1], strict=True):
            assert torch.equal(found, wanted)


def test_a_gradient_can_be_asked_for_twice():
    decoder = random_decoder(gate="none")
    states = read(decoder, "long")
    first = gradient(states, decoder, retain_graph=True)
    for found, wanted in zip(gradient(states, decoder), first, strict=True):
        assert torch.equal(found, wanted)


def test_one_step_after_another_works_in_the_same_memory():
    decoder = random_decoder(gate="none")
    gradient(read(decoder, "wide"), decoder)
    (block,) = decoder._spaces._idle
    memory = block._memory.data_ptr()
    for name in SHAPES:
        gradient(read(decoder, name), decoder)
    assert decoder._spaces._idle == [block]
    assert block._memory.data_ptr() == memory


def test_a_copy_of_the_model_has_memory_of_its_own():
    decoder = random_decoder(gate="none")
    gradient(read(decoder, "long"), decoder)
    assert copy.deepcopy(decoder)._spaces._idle == []
