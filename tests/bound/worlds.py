"""Worlds whose best stopping rule is known: a finite hidden chain, shown by the hidden vector.

In each, the chance of being right and of moving on depends on the chain's node and the loop alone,
so the best rule at a price is exact dynamic programming over nodes.
"""

from dataclasses import dataclass
from math import comb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

LOOPS = 6


@dataclass(frozen=True, kw_only=True)
class World:
    start: NDArray[np.float64]
    """[node]."""
    move: NDArray[np.float64]
    """[loop - 1, node, next node]: chances of moving from loop t to t + 1."""
    right: NDArray[np.float64]
    """[loop, node]: the chance of being right."""
    shown: NDArray[np.float64]
    """[node, factor] or [loop, node, factor]: what the hidden vector is a random linear map of. All
    that was shown so far tells the node."""
    noise: float = 0.1

    def best_frontier(self, budgets: NDArray[np.float64]) -> NDArray[np.float64]:
        """The best accuracy at a mean depth of at most each of the budgets, exactly."""
        points = [self._best_point(price) for price in np.linspace(0.0, 1.0, 2001)]
        points += [self._best_point(1.5)]
        depth, accuracy = np.array(sorted(set(points))).T
        # the least line above all the points: for each budget, over all prices, value + price x it
        slopes = np.linspace(0.0, 1.0, 2001)
        values = (accuracy - slopes[:, None] * depth).max(1)
        return (values[:, None] + slopes[:, None] * budgets).min(0)

    def _best_point(self, price: float) -> tuple[float, float]:
        """Mean depth and accuracy of the best rule at a price a loop."""
        loops = len(self.right)
        value = self.right[-1]
        goes_on = []
        for t in reversed(range(loops - 1)):
            later = self.move[t] @ value - price
            goes_on.append(later > self.right[t] + 1e-12)
            value = np.where(goes_on[-1], later, self.right[t])
        here, depth, accuracy = self.start, 0.0, 0.0
        for t, on in enumerate([*reversed(goes_on), np.zeros(len(here), bool)]):
            depth += (t + 1) * here[~on].sum()
            accuracy += (here * self.right[t])[~on].sum()
            if t < loops - 1:
                here = (here * on) @ self.move[t]
        return float(depth), float(accuracy)

    def sample(
        self, examples: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Nodes and correctness, [example, loop]."""
        node = np.empty((examples, len(self.right)), np.int64)
        node[:, 0] = rng.choice(len(self.start), examples, p=self.start)
        for t, move in enumerate(self.move):
            reached = move.cumsum(1)[node[:, t]]
            node[:, t + 1] = (rng.random((examples, 1)) > reached).sum(1)
        node = node.clip(max=len(self.start) - 1)
        chance = self.right[np.arange(len(self.right)), node]
        return node, rng.random(node.shape) < chance


def store_of(world: World, path: Path, *, sizes: dict[str, int], d_model: int, seed: int) -> Store:
    """A store of `sizes` examples a split, whose hidden vectors show the node and whose logits are
    noise: its correctness is the world's, else repeated predictions would tell of it."""
    rng = np.random.default_rng(seed)
    examples = sum(sizes.values())
    node, right = world.sample(examples, rng)
    factors = world.shown.shape[-1]
    maps = rng.normal(size=(factors, d_model)) / np.sqrt(factors)
    shown = np.broadcast_to(world.shown, (*world.right.shape, factors))
    hidden = (shown @ maps).astype(np.float32)[np.arange(right.shape[1]), node]
    hidden += world.noise * rng.normal(size=hidden.shape).astype(np.float32)
    store = from_arrays(
        path,
        hidden=hidden,
        logits=rng.normal(size=(*right.shape, 3)).astype(np.float32),
        target=rng.integers(0, 3, examples),
        split=np.repeat(list(sizes), list(sizes.values())),
    )
    store.correct = lambda split=None, score=None: right[store.rows(split)]
    return store


def known_at_once() -> World:
    """For a third, loop 1 shows at which loop they will be right; a third are solved by chance;
    a third never."""
    # nodes: to be solved at 1..6; unsolved, solved, never
    nodes = LOOPS + 3
    start = np.array([0.34 / LOOPS] * LOOPS + [0.33, 0.0, 0.33])
    move = np.eye(nodes)
    move[LOOPS, LOOPS:] = [0.75, 0.25, 0.0]
    right = np.zeros((LOOPS, nodes))
    for t in range(LOOPS):
        right[t, : t + 1] = 1.0
    right[:, LOOPS + 1] = 1.0
    return World(
        start=start, move=np.repeat(move[None], LOOPS - 1, 0), right=right, shown=3 * np.eye(nodes)
    )


def exclusive_or() -> World:
    """Two bits are shown. Where they differ, examples are solved before loop 3, else after: each
    bit alone says nothing, and what both say together flips."""
    # node 4 s + 2 a + b: solved or not, and two bits that stay
    start = np.array([0.2] * 4 + [0.05] * 4)
    differ = np.array([0, 1, 1, 0])
    move = np.zeros((LOOPS - 1, 8, 8))
    for t in range(LOOPS - 1):
        solving = np.where(differ == (t < 2), 0.6, 0.02)
        move[t, range(4), range(4)] = 1 - solving
        move[t, range(4), range(4, 8)] = solving
        move[t, range(4, 8), range(4, 8)] = 1.0
    right = np.repeat((np.arange(8) >= 4)[None], LOOPS, 0).astype(float)
    bits = np.array([[n >> 2 & 1, n >> 1 & 1, n & 1] for n in range(8)])
    return World(start=start, move=move, right=right, shown=2 * (2.0 * bits - 1))


def overthinking() -> World:
    """Right answers may be fragile and be lost, some come back, some are never right."""
    # fresh, right for good, fragile, lost, lost for good, never
    start = np.array([0.35, 0.1, 0.2, 0.1, 0.0, 0.25])
    move = np.array(
        [
            [0.45, 0.2, 0.3, 0.05, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.1, 0.4, 0.3, 0.2, 0.0],
            [0.0, 0.1, 0.25, 0.65, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    right = np.repeat(np.array([[0.05, 0.95, 0.9, 0.0, 0.0, 0.0]]), LOOPS, 0)
    return World(
        start=start, move=np.repeat(move[None], LOOPS - 1, 0), right=right, shown=3 * np.eye(6)
    )


def half_hidden() -> World:
    """The loops gather evidence, heads or tails, about how hard an example is; what is shown is
    the number of heads. Hard ones are right later, and with a lower chance."""
    heads = np.array([0.8, 0.3])  # easy, hard
    easy = 0.5
    chance = np.array([[0.35, 0.75, 0.9, 0.95, 0.95, 0.95], [0.05, 0.1, 0.2, 0.4, 0.6, 0.65]])
    nodes = LOOPS + 1  # heads so far, after loop t: 0..t

    def belief(t: int, k: int) -> NDArray[np.float64]:
        """Chances of easy and hard after k heads in t loops."""
        joint = np.array([easy, 1 - easy]) * heads**k * (1 - heads) ** (t - k)
        return joint / joint.sum()

    start = np.zeros(nodes)
    for k in range(2):
        of = comb(1, k) * heads**k * (1 - heads) ** (1 - k)
        start[k] = easy * of[0] + (1 - easy) * of[1]
    move = np.tile(np.eye(nodes), (LOOPS - 1, 1, 1))
    right = np.zeros((LOOPS, nodes))
    for t in range(1, LOOPS + 1):
        for k in range(t + 1):
            right[t - 1, k] = belief(t, k) @ chance[:, t - 1]
            if t < LOOPS:
                up = belief(t, k) @ heads
                move[t - 1, k] = 0.0
                move[t - 1, k, [k, k + 1]] = [1 - up, up]
    shown = np.stack([np.arange(nodes) / 2.0, np.ones(nodes)], 1)
    return World(start=start, move=move, right=right, shown=shown, noise=0.1)


def told_first() -> World:
    """The first state alone shows the kind: solved until loop 4 or not at all, solved after it, or
    never. Later states show no more than whether an example is solved."""
    # node 2 kind + solved
    start = np.array([0.4, 0.05, 0.3, 0.05, 0.2, 0.0])
    chances = np.array([[0.3, 0.3, 0.6, 0, 0], [0, 0, 0, 0.4, 0.9], [0, 0, 0, 0, 0]])
    move = np.zeros((LOOPS - 1, 6, 6))
    for t in range(LOOPS - 1):
        for kind, solving in enumerate(chances[:, t]):
            move[t, 2 * kind, 2 * kind : 2 * kind + 2] = [1 - solving, solving]
            move[t, 2 * kind + 1, 2 * kind + 1] = 1.0
    right = np.repeat((np.arange(6) % 2)[None], LOOPS, 0).astype(float)
    shown = np.zeros((LOOPS, 6, 4))
    shown[:, :, 3] = 2 * right
    shown[0, :, :3] = 2 * np.repeat(np.eye(3), 2, 0)
    return World(start=start, move=move, right=right, shown=shown)


def drifting() -> World:
    """A position drifts up or down, and is right above a threshold. The drift turns now and then,
    and is shown with the other sign at every second loop."""
    # node 9 up + position
    places, threshold = 9, 6
    start = np.zeros(2 * places)
    start[[2, 3, 4, 5, 6, 11, 12, 13, 14, 15]] = 0.1
    move = np.zeros((2 * places, 2 * places))
    for up in range(2):
        for place in range(places):
            there = min(max(place + (1 if up else -1), 0), places - 1)
            for turned, chance in ((up, 0.85), (1 - up, 0.15)):
                move[places * up + place, places * turned + there] += 0.75 * chance
                move[places * up + place, places * turned + place] += 0.25 * chance
    place, up = np.arange(2 * places) % places, np.arange(2 * places) // places
    right = np.repeat(np.where(place >= threshold, 0.95, 0.05)[None], LOOPS, 0)
    sign = (-1.0) ** np.arange(LOOPS)
    shown = np.empty((LOOPS, 2 * places, 3))
    shown[:, :, 0], shown[:, :, 1], shown[:, :, 2] = (
        (place - 4) / 2,
        sign[:, None] * (2 * up - 1),
        1,
    )
    return World(
        start=start, move=np.repeat(move[None], LOOPS - 1, 0), right=right, shown=shown, noise=0.1
    )
