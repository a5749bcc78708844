"""Embedding of a whole table: every column becomes a vector."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tabembed._checks import check_integer, check_probability, check_real, check_seed
from tabembed.batch import Ragged
from tabembed.nn.draws import split_seed
from tabembed.nn.dropout import UnknownDropout
from tabembed.nn.grow import by_row, check_grown
from tabembed.nn.linear import LinearEmbedding
from tabembed.nn.lists import ListEmbedding
from tabembed.nn.multi_categorical import MultiCategoricalEmbedding
from tabembed.nn.sizes import table_dims
from tabembed.nn.time import TimeEmbedding
from tabembed.schema import PADDING, UNKNOWN, ContinuousColumn, DatetimeColumn, TableSchema

Numeric = Callable[[tuple[ContinuousColumn, ...]], nn.Module] | type[nn.Module]
Time = Callable[[tuple[DatetimeColumn, ...]], nn.Module] | type[nn.Module]


class TableEmbedding(nn.Module):
    """Embed the columns of a fitted table, to be trained with a network behind it.

    Args:
        schema: what a fitted encoder knows, ``encoder.schema_``.
        embed_dims: widths of categorical and list columns: one for all, or by name with the
            others automatic. ``"auto"`` counts known values ``n`` and takes
            ``min(n − 1, 600, round(1.6 · n^0.56))``, at least 1.
        numeric: makes the module of the continuous columns from their part of the schema; it maps
            ``(values, missing)`` to ``(*, n_continuous, d_embedding)`` and has ``d_embedding``.
            A class stands for its ``from_columns``; ``None`` takes ``LinearEmbedding``.
        time: makes the module of the datetime columns from their part of the schema; it maps
            ``times`` to ``(*, n_datetime, d_embedding)`` and has ``d_embedding``. A class stands for
            its ``from_columns``; ``None`` takes ``TimeEmbedding``.
        dropout: share of elements of categorical and list vectors dropped while training.
        unknown_dropout: share of known ids read as the unknown id while training.
        seed: seed of the first weights; ``None`` draws from torch's global generator. What
            ``numeric`` and ``time`` make follows it where they take a ``seed`` and were given none.

    Shape:
        - ids: ``(*, n_categorical)`` integers
        - values: ``(*, n_continuous)`` scaled numbers
        - missing: ``(*, n_continuous)`` bool
        - times: ``(*, n_datetime)`` int64 nanoseconds since 1970-01-01 UTC, −2⁶³ where missing
        - lists: column → ``Ragged`` of ``n_rows`` cells; then ``*`` is ``n_rows`` alone
        - output: ``(*, output_dim)``, the columns' vectors side by side in the order of the schema

    Raises: ValueError for a schema without columns, a width for a column that has none, an id out
        of range on the CPU, or tensors that a column needs and does not get. TypeError when ``numeric``
        or ``time`` cannot make a module.
    Source: Guo & Berkhahn 2016, arXiv:1604.06737; numbers: Gorishniy et al. 2021, arXiv:2106.11959.

    >>> from tabembed.schema import CategoricalColumn, TableSchema
    >>> schema = TableSchema(9, (CategoricalColumn("city", (0, 0, 1, 3, 3, 2)),))
    >>> net = TableEmbedding(schema)
    >>> net.embedding_dims()
    {'city': 2}
    >>> net(torch.tensor([[3], [5]]), torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool)).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        schema: TableSchema,
        *,
        embed_dims: str | int | Mapping[str, int] = "auto",
        numeric: Numeric | None = None,
        time: Time | None = None,
        dropout: float = 0.0,
        unknown_dropout: float = 0.0,
        seed: int | None = None,
    ) -> None:
        if not isinstance(schema, TableSchema):
            raise TypeError(
                f"schema must be the schema_ of a fitted TableEncoder, got {type(schema).__name__}"
            )
        check_integer(n_columns=len(schema.columns))
        check_probability(dropout=dropout, unknown_dropout=unknown_dropout)
        check_seed(seed)
        dims = table_dims(schema, embed_dims)
        seeds = split_seed(seed, 3 + len(schema.lists))
        super().__init__()
        self.schema = schema
        self.unknown_dropout = UnknownDropout(unknown_dropout)
        self.categorical: MultiCategoricalEmbedding | None = None
        self.numeric: Any = None
        self.time: Any = None
        if schema.categorical:
            names = [column.name for column in schema.categorical]
            self.categorical = MultiCategoricalEmbedding(
                [column.n_ids for column in schema.categorical],
                [dims[name] for name in names],
                dropout=dropout,
                padding_idx=PADDING,
                names=names,
                seed=seeds[0],
            )
        if schema.continuous:
            self.numeric = made("numeric", numeric, LinearEmbedding, schema.continuous, seeds[1])
        if schema.datetime:
            self.time = made("time", time, TimeEmbedding, schema.datetime, seeds[2])
        self.lists: Any = nn.ModuleList(
            ListEmbedding(column.n_ids, dims[column.name], dropout=dropout, name=column.name, seed=list_seed)
            for column, list_seed in zip(schema.lists, seeds[3:], strict=True)
        )

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        for module in self.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self and callable(reset):
                reset()

    def by_column(
        self,
        ids: Tensor,
        values: Tensor,
        missing: Tensor,
        times: Tensor | None = None,
        lists: Mapping[str, Ragged] | None = None,
    ) -> dict[str, Tensor]:
        """Vectors ``(*, width)`` of every column, in the order of the schema."""
        vectors: list[Tensor] = []
        if self.categorical is not None:
            vectors += self.categorical.columns(self.unknown_dropout(ids))
        if self.numeric is not None:
            vectors += self.numeric(values, missing).unbind(-2)
        if self.time is not None:
            vectors += self.time(given(times, "times", self.schema.datetime[0].name)).unbind(-2)
        for column, embedding in zip(self.schema.lists, self.lists, strict=True):
            cells = given((lists or {}).get(column.name), "lists", column.name)
            vectors.append(embedding(cells._replace(ids=self.unknown_dropout(cells.ids))))
        named = dict(zip(self._names(), vectors, strict=True))
        return {column.name: named[column.name] for column in self.schema.columns}

    def forward(
        self,
        ids: Tensor,
        values: Tensor,
        missing: Tensor,
        times: Tensor | None = None,
        lists: Mapping[str, Ragged] | None = None,
    ) -> Tensor:
        """Vectors of all columns, side by side."""
        return torch.cat(list(self.by_column(ids, values, missing, times, lists).values()), dim=-1)

    def _names(self) -> list[str]:
        """Names by kind, in the order in which ``by_column`` makes their vectors."""
        schema = self.schema
        kinds = (schema.categorical, schema.continuous, schema.datetime, schema.lists)
        return [column.name for columns in kinds for column in columns]

    def embedding_dims(self) -> dict[str, int]:
        """Width of every column's vectors, in the order of the schema."""
        dims: list[int] = []
        dims += [] if self.categorical is None else [dim for _, dim in self.categorical.embedding_dims()]
        dims += [] if self.numeric is None else [self.numeric.d_embedding] * len(self.schema.continuous)
        dims += [] if self.time is None else [self.time.d_embedding] * len(self.schema.datetime)
        dims += [embedding.values.embed_dim for embedding in self.lists]
        named = dict(zip(self._names(), dims, strict=True))
        return {column.name: named[column.name] for column in self.schema.columns}

    @property
    def output_dim(self) -> int:
        """Width of all columns together."""
        return sum(self.embedding_dims().values())

    def weight(self, name: str) -> Tensor:
        """Table ``(n_ids, width)`` of a categorical or list column."""
        weights = [] if self.categorical is None else list(self.categorical.weights)
        weights += [embedding.values.weight for embedding in self.lists]
        columns = (*self.schema.categorical, *self.schema.lists)
        for column, weight in zip(columns, weights, strict=True):
            if column.name == name:
                return weight
        kind = type(self.schema[name]).__name__
        raise ValueError(f"column {name!r}: must be categorical or a list, got {kind}")

    def grow(self, schema: TableSchema, *, optimizer: Any = None) -> None:
        """Append ids in place, as the encoder of the table has grown by them.

        A new id starts with the vector of the unknown id, which is what its rows had so far, so that no
        prediction changes. All else stays, and the optimiser goes on as if nothing had been added.

        Args:
            schema: ``schema_`` of the encoder that ``TableEncoder.grow`` gave.
            optimizer: the optimiser that trains this module. Its moments are zero for the new ids.

        Raises: ValueError for the schema of another fit, and for an optimiser whose state is not kept by row.

        >>> from tabembed.schema import CategoricalColumn, TableSchema
        >>> net = TableEmbedding(TableSchema(9, (CategoricalColumn("city", (0, 0, 1, 3, 3, 2)),)))
        >>> net.grow(TableSchema(9, (CategoricalColumn("city", (0, 0, 1, 3, 3, 2, 0, 0)),)))
        >>> net.weight("city").shape
        torch.Size([8, 2])
        """
        check_grown(self.schema, schema)
        for column in (*schema.categorical, *schema.lists):
            by_row(self.weight(column.name), optimizer)
        if self.categorical is not None:
            cardinalities = [column.n_ids for column in schema.categorical]
            self.categorical.grow(cardinalities, like=UNKNOWN, optimizer=optimizer)
        for column, embedding in zip(schema.lists, self.lists, strict=True):
            embedding.values.grow(column.n_ids, like=UNKNOWN, optimizer=optimizer)
        self.schema = schema

    def param_groups(
        self, learning_rate: float, weight_decay: float, *, table_weight_decay: float = 0.0
    ) -> list[dict[str, Any]]:
        """Groups for an optimiser: matrices of the numeric and time modules, tables, all else.

        Args:
            learning_rate: learning rate of every group.
            weight_decay: weight decay of parameters called ``weight…`` of numeric and time modules.
            table_weight_decay: weight decay of embedding tables. Rows of rare ids get few
                gradients, which decay would soon outweigh. Biases and missing rows have none.

        Raises: ValueError for a negative number.

        >>> from tabembed.schema import CategoricalColumn, TableSchema
        >>> schema = TableSchema(9, (CategoricalColumn("city", (0, 0, 1, 3, 3, 2)),))
        >>> groups = TableEmbedding(schema).param_groups(1e-3, 1e-2)
        >>> [(len(g["params"]), g["lr"], g["weight_decay"]) for g in groups]
        [(1, 0.001, 0.0)]
        """
        check_real(learning_rate=learning_rate, weight_decay=weight_decay)
        check_real(table_weight_decay=table_weight_decay)
        groups: dict[float, list[nn.Parameter]] = {weight_decay: [], table_weight_decay: [], 0.0: []}
        for path, parameter in self.named_parameters():
            if path.startswith(("categorical.", "lists.")):
                groups[table_weight_decay].append(parameter)
            else:
                matrix = path.rpartition(".")[2].startswith("weight")
                groups[weight_decay if matrix else 0.0].append(parameter)
        return [
            {"params": parameters, "lr": learning_rate, "weight_decay": decay}
            for decay, parameters in groups.items()
            if parameters
        ]


def given(argument: Any, name: str, column: str) -> Any:
    """The argument, which a column of the schema needs."""
    if argument is None:
        raise ValueError(f"column {column!r}: {name} must be given, got None")
    return argument


def made(name: str, maker: Any, default: type, columns: Any, seed: int | None) -> nn.Module:
    """The module of some columns: what a maker, an argument of this name, makes of them.

    Raises: TypeError when it can make none, and for a keyword of a partial that the maker does not take.
    """
    maker = default if maker is None else maker
    keywords = getattr(maker, "keywords", {})
    inner = getattr(maker, "func", maker)
    make = getattr(inner, "from_columns", None) if isinstance(inner, type) else inner
    if not callable(make) or isinstance(make, nn.Module):
        got = inner.__name__ if isinstance(inner, type) else repr(inner)
        rule = f"{name} must be a function of columns, or a class with from_columns"
        fix = "a module with settings is functools.partial(PeriodicEmbedding, variant='pbld')"
        raise TypeError(f"{rule}, got {got}; {fix}")
    takes = inspect.signature(make).parameters
    unknown = set(keywords) - set(takes)
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
        rule = f"{name} must be made with arguments of {make.__qualname__}, {', '.join(list(takes)[1:])}"
        raise TypeError(f"{rule}; got {', '.join(sorted(unknown))}")
    if "seed" in takes and keywords.get("seed") is None:
        keywords = {**keywords, "seed": seed}
    return make(columns, *getattr(maker, "args", ()), **keywords)
