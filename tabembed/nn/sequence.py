"""Embedding of rows in time: every row becomes a vector of itself and of its past."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from tabembed._checks import (
    check_bool,
    check_choice,
    check_integer,
    check_probability,
    check_real,
    check_seed,
)
from tabembed.nn.draws import split_seed
from tabembed.nn.dropout import Dropout
from tabembed.nn.grow import check_grown_sequence
from tabembed.nn.learned_position import LearnedPositionalEmbedding
from tabembed.nn.pooling import pooling_of
from tabembed.nn.recurrence import Recurrence
from tabembed.nn.row_columns import real_rows
from tabembed.nn.row_tokens import RowTokens
from tabembed.nn.sequence_attention import SequenceTransformer
from tabembed.nn.sequence_layout import Layout, check_times, read_layout
from tabembed.nn.sequence_position import SCHEMES
from tabembed.nn.sequence_state import SequenceState, check_lines, initial_state, state_after
from tabembed.nn.table import TableEmbedding
from tabembed.nn.time_scale import scale_of
from tabembed.schema import SequenceSchema


class SequenceEmbedding(nn.Module):
    """Embed the rows of sequences in time, to be trained with a network behind it.

    A sequence is the rows of one entity (a customer, an aircraft), the oldest first. Some columns are known
    when a row happens; others, the observed ones, only afterwards: what was paid, how late it came. Every row
    becomes one vector, which knows the row's known columns, and all columns of the rows before it. It never
    depends on the row's own observed columns, nor on anything later, so that it can be made when the row
    happens.

    It is made in two steps. First a token a row: its known columns, the observed columns of the row before
    (a learned vector for the first row), and how long ago that was. Then transformer blocks, or a recurrence,
    through which a row sees the tokens up to its own. Padded on any side, packed, alone or streamed, a
    sequence gives the same vectors.

    Args:
        schema: what a fitted encoder knows, ``encoder.schema_`` of a ``SequenceEncoder``.
        position: how attention knows where rows stand: ``"rotary"``, ``"alibi"``, ``"decay"``,
            ``"sinusoidal"``, ``"learned"``, or ``None``, which leaves it to the order and the gaps.
            ``"gru"`` takes gated recurrent units instead of attention.
        clock: ``"time"``: positions are real time, their scale is chosen from the shortest and longest gaps
            of the data, and a row is told how long ago the row before was. ``"index"``: row numbers, and no
            time at all; rows that are kept apart at one instant have one number.
        d_model: width of a vector. A multiple of 16 makes heads 16 wide; an even number below 32 is one
            head. For ``"gru"`` any number will do.
        num_layers: number of blocks or layers.
        pooling: ``None`` gives a vector a row; ``"last"``, ``"mean"`` and ``"decay"`` (older rows count less,
            with a learned half-life) one a sequence, zeros where it has no rows.
        causal: rows see the rows before them alone. With ``False`` they see all rows, which would show them
            what is observed: not where the schema has observed columns.
        dropout: share of elements dropped while training, of what every block adds.
        embedding: arguments of ``TableEmbedding`` for the columns: ``embed_dims``, ``numeric``, ``time``,
            ``dropout``, ``unknown_dropout``.
        seed: seed of the first weights; ``None`` draws from torch's global generator.

    Shape:
        - rows: tensors of ``TableBatch.tensors``, leading dimensions those of times; ``lists`` have cells
          line by line
        - times: int64 nanoseconds, not falling within a sequence: ``(n_rows,)``, one sequence; with
          cu_seqlens, packed ones; ``(n_batch, n_rows)``, padded ones
        - mask: as times, True for the real rows; padding may stand anywhere and hold anything
        - cu_seqlens: ``(n_sequences + 1,)``, where packed sequences begin and end
        - output: ``(*, d_model)``, zeros on padding; pooled ``(n_sequences, d_model)``, ``(d_model,)`` of
          times ``(n_rows,)`` alone

    Raises: ValueError for unknown words, widths that do not fit, ``"gru"`` where rows of one instant are
        kept apart or with ``causal=False``, ``"decay"`` and observed columns with ``causal=False``, tensors
        of other shapes, and, on the CPU, times that are missing or fall. TypeError for other kinds.

    Source: position schemes by real time: ``attention``; the recurrence is the baseline that Osin et al.
        2024, arXiv:2410.03399, found hard to beat.

    >>> from tabembed.schema import CategoricalColumn, TableSchema
    >>> columns = (CategoricalColumn("city", (0, 0, 1, 2, 1)), CategoricalColumn("late", (0, 0, 0, 3, 1)))
    >>> schema = SequenceSchema(TableSchema(4, columns), ("late",), False, 2, 3, 7200.0, (60.0, 3600.0))
    >>> net = SequenceEmbedding(schema, "rotary", d_model=32)
    >>> none = torch.zeros(3, 0)
    >>> rows = {"ids": torch.tensor([[3, 4], [4, 3], [3, 3]]), "values": none, "missing": none.bool()}
    >>> times = torch.tensor([0, 60, 7200]) * 10**9
    >>> net(rows, times).shape
    torch.Size([3, 32])

    The same, of two sequences packed in one:

    >>> packed = net(rows, times, cu_seqlens=torch.tensor([0, 1, 3]))
    """

    def __init__(
        self,
        schema: SequenceSchema,
        position: str | None = "rotary",
        *,
        clock: str = "time",
        d_model: int = 64,
        num_layers: int = 2,
        pooling: str | None = None,
        causal: bool = True,
        dropout: float = 0.0,
        embedding: Mapping[str, Any] = MappingProxyType({}),
        seed: int | None = None,
    ) -> None:
        if not isinstance(schema, SequenceSchema):
            kind = type(schema).__name__
            raise TypeError(f"schema must be the schema_ of a fitted SequenceEncoder, got {kind}")
        check_choice((*SCHEMES, "gru"), position=position)
        check_integer(d_model=d_model, num_layers=num_layers)
        check_bool(causal=causal)
        check_probability(dropout=dropout)
        check_seed(seed)
        _check_together(schema, position, bool(causal))
        super().__init__()
        self.schema, self.scheme, self.causal, self.d_model = schema, position, bool(causal), int(d_model)
        self.clock = scale_of(schema, clock)
        seeds = split_seed(seed, 2)
        self.tokens = RowTokens(
            schema, self.d_model, timed=self.clock.timed, embedding=embedding, seed=seeds[0]
        )
        self.stack: SequenceTransformer | Recurrence
        if position == "gru":
            self.stack = Recurrence(self.d_model, n_layers=num_layers, dropout=dropout, seed=seeds[1])
        else:
            self.stack = SequenceTransformer(
                position,
                self.clock,
                d_model=self.d_model,
                n_layers=num_layers,
                causal=self.causal,
                dropout=dropout,
                seed=seeds[1],
            )
        self.dropout = Dropout(dropout)
        self.pooling: Any = pooling_of(pooling, self.clock)

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        self.tokens.reset_parameters()
        self.stack.reset_parameters()
        if self.pooling is not None:
            self.pooling.reset_parameters()

    @property
    def known(self) -> TableEmbedding | None:
        """The embedding of the columns that are known when a row happens."""
        return self.tokens.known

    @property
    def after(self) -> TableEmbedding | None:
        """The embedding of the observed columns."""
        return self.tokens.after

    def embedding_dims(self) -> dict[str, int]:
        """Width of every column's vectors, in the order of the schema."""
        halves = [half.embedding_dims() for half in (self.known, self.after) if half is not None]
        dims = {name: dim for half in halves for name, dim in half.items()}
        return {column.name: dims[column.name] for column in self.schema.rows.columns}

    def weight(self, name: str) -> Tensor:
        """Table ``(n_ids, width)`` of a categorical or list column."""
        column = self.schema.rows[name]
        half: Any = self.after if column.name in self.schema.observed else self.known
        return half.weight(name)

    def grow(self, schema: SequenceSchema, *, optimizer: Any = None) -> None:
        """Append ids in place, as ``TableEmbedding.grow`` does.

        Args:
            schema: ``schema_`` of the encoder that ``SequenceEncoder.grow`` gave.
            optimizer: the optimiser that trains this module. Its moments are zero for the new ids.

        Raises: ValueError for the schema of another fit, and for an optimiser whose state is not kept by row.
        """
        check_grown_sequence(self.schema, schema)
        for half, part in ((self.known, schema.known), (self.after, schema.after)):
            if half is not None:
                half.grow(part, optimizer=optimizer)
        self.schema = schema
        self.tokens.use_schema(schema)

    @property
    def output_dim(self) -> int:
        """Width of a vector."""
        return self.d_model

    def forward(
        self,
        rows: Mapping[str, Any],
        times: Tensor,
        *,
        mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Vectors of the rows, or of the sequences where there is a pooling."""
        vectors, layout = self._vectors(rows, times, mask, cu_seqlens)
        if self.pooling is None:
            return vectors if times.ndim == 2 else vectors[0]
        pooled: Tensor = self.pooling(vectors, layout)
        return pooled[0] if times.ndim == 1 and cu_seqlens is None else pooled

    def rows(
        self,
        rows: Mapping[str, Any],
        times: Tensor,
        *,
        mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Vectors of the rows, whatever the pooling; the arguments are those of ``forward``."""
        vectors, _ = self._vectors(rows, times, mask, cu_seqlens)
        return vectors if times.ndim == 2 else vectors[0]

    def _vectors(
        self, rows: Mapping[str, Any], times: Tensor, mask: Tensor | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, Layout]:
        layout = read_layout(times, mask, cu_seqlens, strict=self.schema.strict, rising=self._rising)
        flat = real_rows(rows, layout.real, self.schema.rows, padded=layout.padded)
        vectors, _ = self._encoded(flat, self.tokens.observed(flat, layout), layout, layout.n_places)
        return vectors, layout

    def _encoded(
        self,
        flat: Mapping[str, Any],
        observed: Tensor | None,
        layout: Layout,
        n_new: int,
        layers: tuple[Any, ...] | None = None,
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Vectors of the last places, which are new, and what the stack keeps."""
        own = layout.tail(n_new)
        tokens = self.stack.placed(self.tokens(flat, observed, layout, n_new), own)
        vectors, kept = self.stack(self.dropout(tokens), layout, layers)
        # One dtype for every stack and device: autocast narrows a recurrence nowhere, a norm here and there.
        vectors = vectors.to(tokens.dtype)
        return torch.where(own.real.unsqueeze(-1), vectors, 0) if own.padded else vectors, kept

    @property
    def _rising(self) -> bool:
        """Whether it matters that times do not fall."""
        return self.clock.timed or self.schema.strict

    def step(
        self,
        state: SequenceState | None,
        rows: Mapping[str, Any],
        times: Tensor,
        *,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, SequenceState]:
        """Vectors of the next rows of some sequences, as a call with all rows would give them.

        A row that happens now is scored before its observed columns are known: give it with those missing,
        keep its vector, and drop the state that comes with it. Once they are known, go on with the whole row
        from the state of before; its vector is the same.

        Args:
            state: what the step before gave; ``None`` starts. It is left as it was, so that a row can be
                tried and forgotten; ``state.take([i])`` is that of sequence ``i`` alone.
            rows: tensors of the new rows, padded: ``**batch.padded().tensors()``, not the packed ones.
            times: when they happened, not before those of the rows so far.
            mask: True for the real ones: a sequence may get any number of rows, or none.

        Shape:
            - rows, times, mask: ``(n_batch, n_new, *)``, as padded ones in ``forward``
            - output: ``(n_batch, n_new, d_model)``, zeros on padding, and the next state

        Raises: as ``forward``. ValueError with ``causal=False``, and for another number of sequences.

        >>> from tabembed.schema import TableSchema
        >>> net = SequenceEmbedding(SequenceSchema(TableSchema(9, ()), (), False, 1, 3, 9.0, (9.0,)))
        >>> none = torch.zeros(1, 1, 0)
        >>> rows = {"ids": none.long(), "values": none, "missing": none.bool()}
        >>> one, state = net.step(None, rows, torch.tensor([[0]]))
        >>> two, state = net.step(state, rows, torch.tensor([[9 * 10**9]]))
        >>> two.shape, len(state), state.count
        (torch.Size([1, 1, 64]), 1, tensor([2]))
        """
        if not self.causal:
            raise ValueError("causal must be True for step: later rows would change what was given")
        new = read_layout(times, mask, None, strict=self.schema.strict, rising=self._rising)
        check_lines(state, times)
        flat = real_rows(rows, new.real, self.schema.rows, padded=new.padded)
        observed = self.tokens.observed(flat, new)
        if state is None:
            state = initial_state(new, observed, self.stack.initial_state(new.n_lines))
        whole, seen = state.joined(new, observed, strict=self.schema.strict)
        if self._rising:
            check_times(whole)
        vectors, layers = self._encoded(flat, seen, whole, new.n_places, state.layers)
        count = state.count + new.real.sum(-1)
        return vectors, state_after(whole, seen, layers, count=count, all_rows=self.stack.keeps_rows)

    def param_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """Groups for an optimiser: those of the columns, matrices behind them, all else.

        Args:
            learning_rate: learning rate of every group.
            weight_decay: weight decay of matrices. Tables, biases, normalisations, first vectors, learned
                positions, slopes and half-lives have none.

        Raises: ValueError for a negative number.
        """
        check_real(learning_rate=learning_rate, weight_decay=weight_decay)
        halves = [half for half in (self.known, self.after) if half is not None]
        groups = [group for half in halves for group in half.param_groups(learning_rate, weight_decay)]
        taken = {id(parameter) for half in halves for parameter in half.parameters()}
        rest = [parameter for parameter in self.parameters() if id(parameter) not in taken]
        tables = {id(m.weight) for m in self.modules() if isinstance(m, LearnedPositionalEmbedding)}
        matrices = [p for p in rest if p.ndim > 1 and id(p) not in tables]
        decayed = {id(parameter) for parameter in matrices}
        others = [parameter for parameter in rest if id(parameter) not in decayed]
        for parameters, decay in ((matrices, weight_decay), (others, 0.0)):
            groups.append({"params": parameters, "lr": learning_rate, "weight_decay": decay})
        return groups

    def extra_repr(self) -> str:
        """Arguments."""
        clock = "time" if self.clock.timed else "index"
        return f"{self.scheme!r}, clock={clock!r}, d_model={self.d_model}, causal={self.causal}"


def _check_together(schema: SequenceSchema, position: str | None, causal: bool) -> None:
    """Words and columns that do not go together."""
    if position == "gru" and schema.strict:
        raise ValueError(
            "position='gru' must not be used where rows of one instant are kept apart (ties='strict')"
        )
    if causal:
        return
    if position in ("gru", "decay"):
        raise ValueError(f"causal must be True with position={position!r}, which looks back")
    if schema.observed:
        names = ", ".join(map(repr, schema.observed))
        raise ValueError(f"causal must be True where columns are observed, got {names}: rows would see them")
