"""A short mark by which the rows of the fit are recognised without keeping them, and the warning then."""

from __future__ import annotations

import hashlib
from typing import Any

from tabembed.batch import TableBatch
from tabembed.sequence.batch import SequenceBatch
from tabembed.table.warn import warn_user


def fingerprint(batch: TableBatch | SequenceBatch) -> str:
    """Hash every tensor of a batch; equal rows in another order give another mark.

    Sequences are in their own order: the order of their rows in a table is not part of the mark.

    >>> import torch
    >>> empty = torch.zeros(2, 0)
    >>> batch = TableBatch(torch.tensor([[3], [4]]), empty, empty.bool(), empty.long())
    >>> fingerprint(batch) == fingerprint(batch[[0, 1]]), fingerprint(batch) == fingerprint(batch[[1, 0]])
    (True, False)
    """
    mark = hashlib.blake2b(digest_size=16)
    rows = batch if isinstance(batch, TableBatch) else batch.rows
    own = () if isinstance(batch, TableBatch) else (batch.cu_seqlens, batch.times)
    lists = [tensor for ragged in rows.lists.values() for tensor in ragged]
    for tensor in (rows.ids, rows.values, rows.missing, rows.times, *lists, *own):
        mark.update(repr(tuple(tensor.shape)).encode())
        mark.update(tensor.cpu().contiguous().numpy().tobytes())
    return mark.hexdigest()


def warn_of_fit(estimator: Any, rows: str) -> None:
    """Warn, at the line that calls ``transform``, that it got what the fit got.

    Args:
        estimator: whose ``transform`` calls this.
        rows: what it calls them, ``"table"`` or ``"rows"``.
    """
    seen = "these rows" if getattr(estimator, "target_type_", None) == "next_row" else "the target"
    warn_user(
        f"{type(estimator).__name__}.transform got the {rows} of the fit: these vectors have seen {seen} "
        "and are not out-of-fold. To train a model on them, use fit_transform."
    )
