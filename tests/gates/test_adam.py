import torch

from trajdiag.gates.adam import EPSILON, FIRST, SECOND, Adam


def test_steps_agree_with_torchs_own_adam():
    torch.manual_seed(0)
    start = [torch.randn(3, 4), torch.randn(4)]
    ours = [tensor.clone().requires_grad_() for tensor in start]
    theirs = [tensor.clone().requires_grad_() for tensor in start]
    rates = [0.01, 0.1]
    adam = Adam(ours, rates)
    reference = torch.optim.Adam(
        [{"params": [t], "lr": r} for t, r in zip(theirs, rates, strict=True)],
        betas=(FIRST, SECOND),
        eps=EPSILON,
    )
    for _ in range(20):
        x = torch.randn(8, 3)
        adam.step(torch.autograd.grad(torch.tanh(x @ ours[0] + ours[1]).pow(2).sum(), ours))
        reference.zero_grad()
        torch.tanh(x @ theirs[0] + theirs[1]).pow(2).sum().backward()
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-5)
