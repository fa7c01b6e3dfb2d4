"""The Huginn family behind the looped-model protocol: Huginn-0125 and models of its kind.

What is read out is x_t, the state that is fed forward; the head reads what the final norm, the coda
and the final norm again make of it. State 0 is free: zeros, or noise from a recorded seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import linear

from trajdiag.errors import ConfigError
from trajdiag.models.base import ModelRecord, Positions, Tokenizer, take_positions
from trajdiag.models.huginn_checkpoint import read_huginn
from trajdiag.models.huginn_config import HuginnConfig
from trajdiag.models.huginn_decoder import HuginnBatch, HuginnDecoder
from trajdiag.models.inputs import checked_inputs
from trajdiag.models.rows import gathered_tokens
from trajdiag.models.source import ZEROS, ModelSource

_NOISE = "noise:"
_CUT = 3.0
"""Where the initial noise is cut, in standard deviations of the normal that is cut."""


@dataclass(frozen=True, kw_only=True)
class HuginnState:
    """A right-padded batch between two loops."""

    x: Tensor
    """[token, d_model], row by row: what is fed forward is what is read out."""
    injected: Tensor
    """[token, d_model]: the prelude's output, which every loop reads."""
    batch: HuginnBatch


class HuginnModel:
    """A Huginn decoder as a LoopedModel that Compacts, and FreeStart, for inference. `decoder` is
    the module."""

    has_gate = False
    padding = frozenset({"right"})

    def __init__(
        self, decoder: HuginnDecoder, record: ModelRecord, tokenizer: Tokenizer | None = None
    ) -> None:
        self.decoder = decoder.eval()
        self.record = record
        self.loops = decoder.config.mean_recurrence
        self.d_model = decoder.config.n_embd
        self.vocab_size = decoder.config.vocab_size
        self.device = decoder.head_weight.device
        self.dtype = decoder.head_weight.dtype
        self.max_positions: int | None = decoder.config.block_size
        self.tokenizer = tokenizer
        self._seed = _seed(record.initial_state)
        self._noise = torch.empty(0, self.d_model)
        self._wide_head: Tensor | None = None

    def begin(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> HuginnState:
        """See LoopedModel. Every row starts from the same zeros or the same noise.

        Raises ConfigError for misshapen inputs, unknown ids, and padding before a real token.
        """
        return self._begin(None, input_ids, attention_mask, position_ids)

    def begin_from(
        self,
        initial_state: Tensor,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> HuginnState:
        """See FreeStart. Raises ConfigError as `begin` does."""
        if initial_state.shape != (*input_ids.shape, self.d_model):
            raise ConfigError(
                f"initial_state must be {[*input_ids.shape, self.d_model]}, not "
                f"{list(initial_state.shape)}"
            )
        return self._begin(initial_state, input_ids, attention_mask, position_ids)

    def step(self, state: HuginnState) -> HuginnState:
        """See LoopedModel."""
        return replace(state, x=self.decoder.loop(state.x, state.injected, state.batch))

    def hidden(self, state: HuginnState, at: Positions | None = None) -> Tensor:
        """See LoopedModel: x_t, before any norm."""
        rows, positions = state.batch.rows, state.batch.positions
        return take_positions(state.x.view(rows, positions, -1), at)

    def head_input(self, state: HuginnState, at: Positions | None = None) -> Tensor:
        """See LoopedModel: the final norm of the coda of the final norm of x_t."""
        rows, positions = state.batch.rows, state.batch.positions
        if at is None:
            return self.decoder.coda(state.x, state.batch).view(rows, positions, -1)
        row, position = at
        return self.decoder.coda(state.x, state.batch, row * positions + position)

    def head(self, head_input: Tensor) -> Tensor:
        """See LoopedModel."""
        if self.dtype == torch.float32 or torch.is_grad_enabled():
            return self.decoder.head(head_input)
        # A vocabulary-sized cast a loop would cost more than the product it serves.
        if self._wide_head is None:
            self._wide_head = self.decoder.head_weight.detach().float()
        return linear(head_input.float(), self._wide_head)

    def saved_head(self) -> None:
        """See LoopedModel: the coda stands between state and head."""

    def gate_logit(self, state: HuginnState, at: Positions | None = None) -> None:
        """See LoopedModel: there is no gate."""

    def gather(self, parts: Sequence[tuple[HuginnState, Tensor]]) -> HuginnState:
        """See Compacts."""
        batch = parts[0][0].batch

        def tokens(of: Callable[[HuginnState], Tensor]) -> Tensor:
            return gathered_tokens(parts, of, batch.positions)

        return HuginnState(
            x=tokens(lambda state: state.x),
            injected=tokens(lambda state: state.injected),
            batch=replace(
                batch,
                rows=sum(len(rows) for _, rows in parts),
                turn=tokens(lambda state: state.batch.turn),
            ),
        )

    def _begin(
        self,
        initial_state: Tensor | None,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        position_ids: Tensor | None,
    ) -> HuginnState:
        inputs = checked_inputs(
            input_ids,
            attention_mask,
            position_ids,
            name=self.record.name,
            vocab_size=self.vocab_size,
            device=self.device,
        )
        rows, positions = input_ids.shape
        longest = self.decoder.config.block_size
        if positions > longest:
            raise ConfigError(
                f"rows of {positions} tokens are longer than the {longest} that "
                f"{self.record.name} takes"
            )
        late = (inputs.real[:, 1:] & ~inputs.real[:, :-1]).any(-1).nonzero()
        if len(late):
            raise ConfigError(
                f"row {int(late[0])} has padding before a real token, but {self.record.name} "
                "ignores attention masks; pad on the right"
            )
        batch = self.decoder.batch(rows, positions, inputs.position_ids.reshape(-1))
        injected = self.decoder.prelude(inputs.input_ids.reshape(-1), batch)
        if initial_state is None:
            initial_state = self._initial(positions).expand(rows, -1, -1)
        x = initial_state.to(self.device, self.dtype).reshape(-1, self.d_model)
        return HuginnState(x=x, injected=injected, batch=batch)

    def _initial(self, positions: int) -> Tensor:
        """State 0 of every row, [position, d_model]."""
        if self._seed is None:
            return torch.zeros(positions, self.d_model)
        if len(self._noise) < positions:
            # Batches come by length: a little longer each time must not mean a new draw each time.
            longest = self.decoder.config.block_size
            self._noise = initial_noise(
                self.decoder.config, self._seed, min(max(positions, 2 * len(self._noise)), longest)
            )
        return self._noise[:positions]


def load(source: ModelSource) -> HuginnModel:
    """Open a folder whose model_type is `huginn_raven`.

    Raises CheckpointError or NonFiniteError naming the key or the tensor at fault.
    """
    checkpoint = read_huginn(source.folder, source.device, source.dtype)
    record = source.record("huginn_raven", checkpoint.config, checkpoint.sha256, free_start=True)
    return HuginnModel(checkpoint.decoder, record, source.tokenizer)


def initial_noise(config: HuginnConfig, seed: int, positions: int) -> Tensor:
    """State 0 by position, float32 [position, d_model] on the CPU, the same for every row.

    A normal of standard deviation sqrt(2 / (5 d_model)), cut at three of them and multiplied by
    sqrt(d_model). Position p's noise depends on the seed and p alone: a longer table begins with
    the shorter one, so neither a row's neighbours nor the padding of a batch change it.
    """
    generator = torch.Generator().manual_seed(seed)
    # One draw a position: how a larger tensor would be filled is for torch to choose.
    uniform = torch.stack(
        [
            torch.rand(config.n_embd, generator=generator, dtype=torch.float64)
            for _ in range(positions)
        ]
    )
    low, high = torch.special.ndtr(torch.tensor([-_CUT, _CUT], dtype=torch.float64))
    normal = torch.special.ndtri(low + (high - low) * uniform)
    return (normal * (config.initial_std * config.embedding_scale)).float()


def _seed(initial_state: str | None) -> int | None:
    """The seed of `noise:SEED`; None for zeros."""
    if initial_state in (None, ZEROS):
        return None
    seed = initial_state.removeprefix(_NOISE)
    if not initial_state.startswith(_NOISE) or not seed.isdecimal() or int(seed) >= 2**63:
        raise ConfigError(
            f"unknown initial state {initial_state!r}; existing: {ZEROS}, {_NOISE}SEED with "
            "a whole number from 0"
        )
    return int(seed)
