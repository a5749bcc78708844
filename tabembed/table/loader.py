"""Batches for training from parquet files that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.distributed as dist
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.utils.data import IterableDataset

from tabembed._checks import check_bool, check_integer
from tabembed.batch import TableBatch
from tabembed.table.canonical import family
from tabembed.table.encoder import TableEncoder
from tabembed.table.epoch import Epoch
from tabembed.table.frame import places_in, read_frame
from tabembed.table.number import numbers
from tabembed.table.parquet import open_dataset
from tabembed.table.row_groups import RowGroups, batch_borders, part_of

_BUFFER = 2**18


class ParquetBatches(IterableDataset[Any]):
    """Encoded batches of parquet files, in order or shuffled, read a few groups of rows at a time.

    Give it to a ``DataLoader`` with ``batch_size=None``: it makes the batches itself, and each one has memory
    of its own. A pass over it, an epoch, has every row exactly once over all workers and ranks.

    **Order.** Shuffled, groups of rows come in another order, and rows change places among the ``shuffle``
    rows that are read together. Seed and epoch decide the order; ``set_epoch`` says which epoch it is, and
    without it every pass is the same.

    **Ranks.** Each has an equal part of the rows, but for one row, and equally many batches, as
    ``DistributedDataParallel`` needs them: a rank that has a row less than another, and so would have a batch
    less, cuts its last batch in two. With ``drop_last`` every rank has equally many full batches.

    **Workers.** Each has neighbouring batches of its rank, so their number changes the order of batches and
    which rows are shuffled together. A group of rows that two parts share is read by both: files should have
    more groups than there are workers.

    **Resuming.** ``state_dict`` says where an epoch stands, and after ``load_state_dict`` the next pass gives
    the batches that remain, in the same order. It takes the same settings, ranks and number of workers.
    Workers read ahead, so with them ``state_dict`` must be told how many batches the training has had.
    Loaders that ask each worker for its own state get it.

    Args:
        source: path of a parquet file or a folder of them, a list of paths, or a ``pyarrow.dataset.Dataset``.
        encoder: a fitted ``TableEncoder``.
        batch_size: rows of a batch; the last one may be smaller.
        target: column to predict: batches are ``(batch, y)``, with integers and flags as int64, other numbers
            as float32.
        shuffle: ``True``, ``False``, or how many rows, at least, are shuffled among themselves and so are in
            memory at once (``True``: 262,144).
        seed: of the order; nothing else is drawn, and no other generator is touched.
        drop_last: leave out rows that fill no batch, a few at the end of the line of each rank.
        shard: ``(rank, n_ranks)``; ``None`` asks ``torch.distributed`` where that is initialised.

    Raises:
        FileNotFoundError: when there is no such file.
        ValueError: for files that are no parquet, columns that are not there, a target that the encoder
            encodes (a network would read the answer off its input), missing or infinite targets, fewer rows
            than ranks.
        TypeError: for what is no encoder, a target that is no number.

    >>> import tempfile, pandas as pd
    >>> table = pd.DataFrame({"km": [1.0, 2.0, 4.0], "late": [0, 1, 1]})
    >>> encoder = TableEncoder(["km"]).fit(table)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_parquet(f"{folder}/a.parquet")
    ...     batches = ParquetBatches(folder, encoder, batch_size=2, target="late")
    ...     [(len(batch), y.tolist()) for batch, y in torch.utils.data.DataLoader(batches, batch_size=None)]
    [(2, [0, 1]), (1, [1])]
    """

    def __init__(
        self,
        source: Any,
        encoder: TableEncoder,
        *,
        batch_size: int = 1024,
        target: str | None = None,
        shuffle: bool | int = False,
        seed: int = 0,
        drop_last: bool = False,
        shard: tuple[int, int] | None = None,
    ) -> None:
        if not isinstance(encoder, TableEncoder):
            raise TypeError(f"encoder must be a fitted TableEncoder, got {type(encoder).__name__}")
        check_is_fitted(encoder, "schema_")
        check_integer(batch_size=batch_size)
        rows = _BUFFER * int(shuffle) if isinstance(shuffle, bool | np.bool_) else shuffle
        check_integer(0, shuffle=rows, seed=seed)
        check_bool(drop_last=drop_last)
        self.encoder, self.batch_size, self.target, self.seed = encoder, int(batch_size), target, int(seed)
        self.shuffle, self.drop_last = bool(shuffle), bool(drop_last)
        self.shard = None if shard is None else _checked_shard(shard)
        self._buffer = int(rows) or _BUFFER
        self._groups = _open(source, encoder, target)
        self._epoch = Epoch()
        self._borders()

    def __len__(self) -> int:
        """Number of batches of an epoch, on this rank."""
        return len(self._borders()) - 1

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next pass is: another one has another order, and starts at its beginning."""
        self._epoch.set(epoch)

    def state_dict(self, n_batches: int | None = None) -> dict[str, Any]:
        """Where the epoch stands: plain numbers, for a checkpoint.

        Args:
            n_batches: batches of this epoch, and of this rank, that the training has had. Needed where
                workers make them.

        Raises: ValueError without it where workers make them.
        """
        return {**self._epoch.state(n_batches), "settings": self._settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken: the next pass gives the batches that remain of its epoch.

        Raises: ValueError for other settings, ranks or rows; where the next pass begins, for another number
            of workers.
        """
        rest = dict(state)
        saved = rest.pop("settings", {})
        for name, value in self._settings().items():
            if saved.get(name) != value:
                raise ValueError(f"{name} must be {saved.get(name)!r} as in the state, got {value!r}")
        check_integer(0, done=rest.get("done"))
        if rest["done"] > len(self):
            raise ValueError(f"done must be at most the {len(self)} batches of an epoch, got {rest['done']}")
        self._epoch.load(rest)

    def __iter__(self) -> Iterator[Any]:
        now, part = self._epoch.begin()
        borders = self._borders()
        first, last = part_of(len(borders) - 1, part, now.n_parts)
        return self._batches(now.epoch, borders[first : last + 1], now.done)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "shard": self._shard()}  # a worker knows no torch.distributed

    def _batches(self, epoch: int, borders: np.ndarray, done: int) -> Iterator[Any]:
        """The batches between borders, but for those that are done, a few groups of rows at a time."""
        at_once = max(1, self._buffer // self.batch_size)
        order = np.arange(len(self._groups.n_rows))
        if self.shuffle:
            order = np.random.default_rng((self.seed, epoch)).permutation(order)
        done_before = done // at_once * at_once
        cuts = np.append(borders[done_before:-1:at_once], borders[-1])
        for begin, table in zip(cuts, self._groups.cut(order, cuts), strict=False):
            batch, y = self._encoded(table)
            if self.shuffle:
                rows = torch.from_numpy(
                    np.random.default_rng((self.seed, epoch, begin)).permutation(len(batch))
                )
                batch, y = _taken(batch, rows), None if y is None else y[rows]
            inner = borders[done_before : done_before + at_once + 1] - begin
            for low, high in pairwise(inner[done - done_before :].tolist()):
                done += 1
                self._epoch.count(done)
                yield _own(batch, low, high) if y is None else (_own(batch, low, high), y[low:high].clone())
            done_before += at_once

    def _encoded(self, table: pa.Table) -> tuple[TableBatch, Tensor | None]:
        batch = self.encoder.transform(table.drop_columns(self.target) if self.target else table)
        return batch, None if self.target is None else _target(table, self.target)

    def _borders(self) -> np.ndarray:
        return batch_borders(
            int(self._groups.n_rows.sum()), self.batch_size, self._shard() or (0, 1), self.drop_last
        )

    def _shard(self) -> tuple[int, int] | None:
        if self.shard is None and dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
        return self.shard

    def _settings(self) -> dict[str, Any]:
        rank, n_ranks = self._shard() or (0, 1)
        return {
            "n_rows": int(self._groups.n_rows.sum()),
            "batch_size": self.batch_size,
            "shuffle": self._buffer if self.shuffle else 0,
            "seed": self.seed,
            "drop_last": self.drop_last,
            "rank": rank,
            "n_ranks": n_ranks,
        }


def _open(source: Any, encoder: TableEncoder, target: str | None) -> RowGroups:
    """The groups of rows of a source, once its columns are known to be those that are needed."""
    dataset = open_dataset(source)
    names, needed = dataset.schema.names, list(encoder.columns_)
    if target is not None:
        if not isinstance(target, str):
            raise TypeError(f"target must be the name of a column, got {target!r}")
        if target in needed:
            raise ValueError(
                f"column {target!r}: must not be both the target and encoded, as the answer would be among "
                f"what is known: fit the encoder with columns={{{target!r}: 'drop'}}"
            )
    if not encoder._named and not set(needed) <= set(names):  # then columns go by position
        needed = [name for name in names if name != target]
    text = [name for name, kind in encoder.kinds_.items() if kind == "categorical" and name in needed]
    groups = RowGroups.of(dataset, [*needed, *([] if target is None else [target])], text)
    empty = groups.schema.empty_table()
    places_in(read_frame(empty.select(needed)), encoder.columns_, encoder)
    if target is not None:
        _check_target(empty.schema.field(target).type, target)
    return groups


def _check_target(kind: pa.DataType, name: str) -> None:
    if not (pa.types.is_null(kind) or family(kind) in ("numbers", "booleans")):
        raise TypeError(f"column {name!r}: must hold numbers or flags to be the target, got {family(kind)}")


def _target(table: pa.Table, name: str) -> Tensor:
    column = read_frame(table.select([name])).column(0)
    if column.null_count:
        raise ValueError(
            f"column {name!r}: must not be missing in the target, got {column.null_count:,} "
            f"of {len(column):,} rows without it"
        )
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        try:
            return torch.from_numpy(column.cast(pa.int64()).to_numpy(zero_copy_only=False).copy())
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {name!r}: must fit int64 to be the target ({error})") from None
    with np.errstate(over="ignore"):
        y = numbers(column, name).astype(np.float32)
    if not np.isfinite(y).all():
        raise ValueError(
            f"column {name!r}: must be finite as float32 to be the target, got "
            f"{numbers(column, name)[~np.isfinite(y)][0]}"
        )
    return torch.from_numpy(y)


def _taken(batch: TableBatch, rows: Tensor) -> TableBatch:
    """Some rows, column by column, as they lie in memory; brackets take twenty times as long."""
    places = rows.numpy()

    def taken(lane: Tensor) -> Tensor:
        columns = lane.numpy().T
        out = np.empty((len(columns), len(places)), columns.dtype)
        for column, target in zip(columns, out, strict=True):
            np.take(column, places, out=target, mode="clip")  # numpy copies what it checks for range
        return torch.from_numpy(out).T

    flat = {name: taken(lane) for name, lane in batch._flat().items()}
    return TableBatch(**flat, lists={name: ragged.take(rows) for name, ragged in batch.lists.items()})


def _own(batch: TableBatch, low: int, high: int) -> TableBatch:
    """Neighbouring rows in memory of their own: a batch that is kept does not keep its neighbours."""
    by_rows = torch.contiguous_format
    flat = {name: lane[low:high].clone(memory_format=by_rows) for name, lane in batch._flat().items()}
    lists = {name: ragged.take(torch.arange(low, high)) for name, ragged in batch.lists.items()}
    return TableBatch(**flat, lists=lists)


def _checked_shard(shard: Any) -> tuple[int, int]:
    """A rank and the number of ranks."""
    if not isinstance(shard, tuple | list) or len(shard) != 2:
        raise TypeError(f"shard must be (rank, n_ranks), got {shard!r}")
    rank, n_ranks = shard
    check_integer(0, rank=rank)
    check_integer(1, n_ranks=n_ranks)
    if rank >= n_ranks:
        raise ValueError(f"rank must be below the number of ranks, {n_ranks}, got {rank}")
    return int(rank), int(n_ranks)
