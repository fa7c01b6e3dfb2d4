"""Causal attention of many short rows with its gradient written out, for training small models on
the CPU.

torch's kernels work through a softmax of a few keys row by row and head by head, which costs four
times the products. Here rows are laid end to end in strips as long as the longest row, all strips
are one batch, and the softmax runs over the first axis of [key, strip x head, query], where it is
vectorised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_LONGEST = 24
"""Positions up to which rows are short; beyond, what padding and masked scores waste grows."""


@dataclass(frozen=True, kw_only=True)
class ShortRows:
    """Where the tokens of a packed batch stand among its strips."""

    tokens: int
    positions: int
    """Of a strip, and of the longest row."""
    parted: Tensor
    """int64 [part x strip x head x position]: where each place's query, key or value stands in
    [token x part x head]; that of token 0 where there is no token."""
    place: Tensor
    """int64 [token x head]: where it stands in [strip x head x position]."""
    joined: Tensor
    """int64 [token x part x head]: where it stands in [part x strip x head x position]."""
    taken: Tensor
    """int64 [strip x head x position]: where each place stands in [token x head]; the one past the
    last token's where there is no token."""
    turn: Tensor
    """complex [query or key, strip, 1, position, head_dim / 2]: the rotary angles, exp(i angle),
    those of queries divided by the root of head_dim; of one strip for all where each holds one
    row."""
    back: Tensor
    """The same of the opposite angles."""
    hidden: Tensor
    """[key, strip x head, query]: -inf where the key comes after the query or is of another row,
    else 0; of one strip for all where each holds one row."""


def suits(groups: Sequence[tuple[int, int]], device: torch.device) -> bool:
    """Whether groups of (rows, positions) are attended faster here than by torch."""
    return device.type == "cpu" and max(positions for _, positions in groups) <= _LONGEST


def short_rows(groups: Sequence[tuple[int, int]], angles: Tensor, heads: int) -> ShortRows:
    """Of groups of (rows, positions), tokens group after group; `angles` [position, head_dim / 2]
    are those of the positions of the longest row, in the dtype of the states."""
    positions = len(angles)
    length = torch.cat([torch.full((r,), p) for r, p in groups])
    strip, start = torch.tensor(_strips(groups, positions)).unbind(1)  # of each row
    strips, tokens = int(strip.max()) + 1, int(length.sum())
    row = torch.arange(len(length)).repeat_interleave(length)  # of each token
    token = torch.arange(tokens)
    offset = token - (length.cumsum(0) - length)[row]
    at = strip[row] * positions + start[row] + offset
    token_at = torch.full((strips * positions,), tokens)
    token_at[at] = token
    row_at = torch.full((strips * positions,), -1)
    row_at[at] = row
    offset_at = torch.zeros(strips * positions, dtype=torch.int64)
    offset_at[at] = offset

    head, part = torch.arange(heads), torch.arange(3)
    by_head = token_at.view(-1, 1, positions) * heads + head[:, None]
    # token 0 stands in where there is none: no real query sees it, and no gradient comes of it
    first = (token_at % tokens).view(-1, 1, positions)
    parted = (3 * first + part.view(3, 1, 1, 1)) * heads + head[:, None]
    place = (at // positions * heads)[:, None] + head
    place = place * positions + (at % positions)[:, None]
    joined = place[:, None, :] + part.view(3, 1) * (strips * heads * positions)
    hidden = torch.full((positions, positions), -torch.inf, dtype=angles.dtype).tril(-1)
    hidden = hidden.unsqueeze(1)
    if strips == len(length):
        angle = angles.view(1, 1, positions, -1)
    else:
        angle = angles[offset_at].view(strips, 1, positions, -1)
        key, query = row_at.view(-1, positions).T[:, :, None], row_at.view(-1, positions)
        hidden = hidden.masked_fill(key != query, -torch.inf).repeat_interleave(heads, 1)
    angle = angle.unsqueeze(0)
    scale = torch.tensor([(2 * angle.shape[-1]) ** -0.5, 1.0], dtype=angle.dtype)
    length_of = scale.view(2, 1, 1, 1, 1).expand(2, *angle.shape[1:])
    return ShortRows(
        tokens=tokens,
        positions=positions,
        parted=parted.flatten(),
        place=place.flatten(),
        joined=joined.flatten(),
        taken=by_head.flatten(),
        turn=torch.polar(length_of, angle.expand_as(length_of)),
        back=torch.polar(length_of, -angle.expand_as(length_of)),
        hidden=hidden,
    )


def _strips(groups: Sequence[tuple[int, int]], positions: int) -> list[tuple[int, int]]:
    """The strip of each row and its start there: the longest rows first, each where it leaves the
    least room."""
    shortest = sorted(length for rows, length in groups for _ in range(min(rows, 2)))[:2]
    if sum(shortest) > positions or len(shortest) < 2:
        return [(strip, 0) for strip in range(sum(rows for rows, _ in groups))]
    with_room: list[list[int]] = [[] for _ in range(positions + 1)]
    strips = 0
    found: list[list[tuple[int, int]]] = [[] for _ in groups]
    for group in sorted(range(len(groups)), key=lambda group: -groups[group][1]):
        rows, length = groups[group]
        for _ in range(rows):
            room = next((room for room in range(length, positions) if with_room[room]), None)
            if room is None:
                strip, room, strips = strips, positions, strips + 1
            else:
                strip = with_room[room].pop()
            with_room[room - length].append(strip)
            found[group].append((strip, positions - room))
    return [place for of_group in found for place in of_group]


Take = Callable[..., Tensor]
"""Gives memory of a shape: of a step, of a place that works for one after another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptAttention:
    """What the gradient of one attention needs, and its result; views of four arrays."""

    parts: Tensor
    """[part x strip x head x position, head_dim]: queries, keys and values, turned."""
    turned: Tensor
    """complex: its queries and keys, as `ShortRows.turn` multiplies them."""
    q: Tensor
    k: Tensor
    v: Tensor
    """[strip x head, position, head_dim]."""
    q_across: Tensor
    """[strip x head, head_dim, position]."""
    shares: Tensor
    """[key, strip x head, query]."""
    shares_by_query: Tensor
    """[strip x head, query, key]."""
    shares_by_key: Tensor
    """[strip x head, key, query]."""
    attended: Tensor
    """[token, heads x head_dim]: the result."""
    attended_by_head: Tensor
    """[token x head, head_dim]."""

    @classmethod
    def of(cls, rows: ShortRows, head_dim: int, take: Take) -> "KeptAttention":
        p = rows.positions
        parts = take(len(rows.parted), head_dim)
        q, k, v = by_part = parts.view(3, -1, p, head_dim)
        shares, attended = take(p, len(q), p), take(len(rows.place), head_dim)
        return cls(
            parts=parts,
            turned=_turned(by_part[:2], rows),
            q=q,
            k=k,
            v=v,
            q_across=q.transpose(1, 2),
            shares=shares,
            shares_by_query=shares.permute(1, 2, 0),
            shares_by_key=shares.transpose(0, 1),
            attended=attended.view(rows.tokens, -1),
            attended_by_head=attended,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionScratch:
    """What one attention after another works in."""

    qkv: Tensor
    """[token, 3 x heads x head_dim], in and, of its gradient, out."""
    qkv_by_head: Tensor
    """[token x part x head, head_dim]."""
    products: Tensor
    """[strip x head, key, query]."""
    products_by_key: Tensor
    """[key, strip x head, query]."""
    scores: Tensor
    of_scores: Tensor
    """[key, strip x head, query]."""
    of_scores_by_query: Tensor
    of_scores_by_key: Tensor
    by_strip: Tensor
    """[strip x head, position, head_dim]."""
    by_strip_across: Tensor
    by_place: Tensor
    """[strip x head x position, head_dim], the same."""
    above: Tensor
    """[token, heads x head_dim]: the gradient of the result."""
    above_by_head: Tensor
    """[token x head, head_dim], and `nowhere`."""
    nowhere: Tensor
    """[head, head_dim]: zeros, the gradient of places without a token."""
    found: Tensor
    """[part x strip x head x position, head_dim]."""
    found_parts: tuple[Tensor, ...]
    found_turned: Tensor

    @classmethod
    def of(cls, rows: ShortRows, head_dim: int, take: Take) -> "AttentionScratch":
        p = rows.positions
        qkv = take(len(rows.joined), head_dim)
        by_place, found = take(len(rows.taken), head_dim), take(len(rows.parted), head_dim)
        by_strip = by_place.view(-1, p, head_dim)
        products = take(len(by_strip), p, p)
        scores, of_scores = take(p, len(by_strip), p), take(p, len(by_strip), p)
        heads = len(rows.place) // rows.tokens
        above = take(len(rows.place) + heads, head_dim)
        above[-heads:] = 0
        by_part = found.view(3, -1, p, head_dim)
        return cls(
            qkv=qkv.view(rows.tokens, -1),
            qkv_by_head=qkv,
            products=products,
            products_by_key=products.transpose(0, 1),
            scores=scores,
            of_scores=of_scores,
            of_scores_by_query=of_scores.permute(1, 2, 0),
            of_scores_by_key=of_scores.transpose(0, 1),
            by_strip=by_strip,
            by_strip_across=by_strip.transpose(1, 2),
            by_place=by_place,
            above=above[:-heads].view(rows.tokens, -1),
            nowhere=above[-heads:],
            above_by_head=above,
            found=found,
            found_parts=by_part.unbind(),
            found_turned=_turned(by_part[:2], rows),
        )


def attend(rows: ShortRows, kept: KeptAttention, scratch: AttentionScratch) -> None:
    """Of `scratch.qkv`, pairs of a head's rotary dimensions being neighbours, find
    `kept.attended` and what `attend_back` needs."""
    # rows of one head are moved at once: half the time of moving tokens, then permuting
    torch.index_select(scratch.qkv_by_head, 0, rows.parted, out=kept.parts)
    kept.turned.mul_(rows.turn)
    torch.bmm(kept.k, kept.q_across, out=scratch.products)
    torch.add(rows.hidden, scratch.products_by_key, out=scratch.scores)
    torch.softmax(scratch.scores, 0, out=kept.shares)
    torch.bmm(kept.shares_by_query, kept.v, out=scratch.by_strip)
    torch.index_select(scratch.by_place, 0, rows.place, out=kept.attended_by_head)


def attend_back(rows: ShortRows, kept: KeptAttention, scratch: AttentionScratch) -> None:
    """Leave in `scratch.qkv` its gradient, of that of `kept.attended`, `scratch.above`."""
    of_q, of_k, of_v = scratch.found_parts
    torch.index_select(scratch.above_by_head, 0, rows.taken, out=scratch.by_place)
    torch.bmm(kept.shares_by_key, scratch.by_strip, out=of_v)
    torch.bmm(kept.v, scratch.by_strip_across, out=scratch.products)
    scratch.scores.copy_(scratch.products_by_key)
    torch._softmax_backward_data(  # pyright: ignore[reportPrivateImportUsage]
        scratch.scores, kept.shares, 0, kept.shares.dtype, grad_input=scratch.of_scores
    )
    torch.bmm(scratch.of_scores_by_query, kept.k, out=of_q)
    torch.bmm(scratch.of_scores_by_key, kept.q, out=of_k)
    scratch.found_turned.mul_(rows.back)
    torch.index_select(scratch.found, 0, rows.joined, out=scratch.qkv_by_head)


def _turned(parts: Tensor, rows: ShortRows) -> Tensor:
    """[part, strip x head, position, head_dim] as what `rows.turn` multiplies."""
    by_strip = parts.unflatten(1, (rows.turn.shape[1], -1)).unflatten(-1, (-1, 2))
    return torch.view_as_complex(by_strip)
