"""Windows of sequences, read many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tabembed._checks import check_integer
from tabembed.batch import Index, Ragged, read_index
from tabembed.sequence.padded import PaddedSequences, RowReader, lay_out

if TYPE_CHECKING:
    from tabembed.sequence.batch import SequenceBatch


class Windows:
    """Windows of ``length`` neighbouring rows of one entity: a data set for training.

    Of every sequence there is the window that ends at its last row, the one that ends ``stride`` rows
    earlier, and so on; the earliest begins at its first row, wherever that falls. So every row stands in a
    window as long as ``stride`` is at most ``length``. A sequence of at most ``length`` rows is one window,
    with padding on the right. Windows are numbered sequence by sequence, the earliest first.

    ``len`` is the number of windows, an index (a slice, a mask or int64 numbers) reads them as
    :class:`PaddedSequences`: ``positions`` count from the window's first row; ``elapsed`` and ``gap`` are
    those of the entity. In a DataLoader: ``DataLoader(windows, sampler=BatchSampler(...), batch_size=None)``.

    Args:
        batch: the sequences.
        length: rows of a window.
        stride: rows from a window to the next.

    Raises: ValueError for a length or stride below 1, TypeError for other kinds.

    >>> from tabembed.sequence.batch import example
    >>> windows = Windows(example(), 2)
    >>> len(windows), windows[:].times.tolist()
    (2, [[10000000000, 20000000000], [20000000000, 30000000000]])
    """

    def __init__(self, batch: SequenceBatch, length: int, *, stride: int = 1) -> None:
        check_integer(length=length, stride=stride)
        self.batch = batch
        self.length = length
        self.stride = stride
        n = batch.lengths
        count = ((n - length).clamp(min=0) + stride - 1) // stride + (n > 0)
        self._offsets = torch.cat((count.new_zeros(1), count.cumsum(0)))
        self._any_short = bool((n < length).any())

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __repr__(self) -> str:
        return f"Windows({len(self):,} of length {self.length:,}, stride {self.stride:,}, of {self.batch})"

    def __getitem__(self, index: Index) -> PaddedSequences:
        chosen = self._numbers(index)
        sequence = torch.searchsorted(self._offsets, chosen, right=True) - 1
        start, stop = self.batch.cu_seqlens[sequence].long(), self.batch.cu_seqlens[sequence + 1].long()
        later = self._offsets[sequence + 1] - 1 - chosen  # windows of the sequence after this one
        first = torch.maximum(start, stop - self.length - later * self.stride)
        within = torch.arange(self.length, device=first.device).expand(len(first), -1)
        n = stop - first
        mask = within < n[:, None]
        short = (~mask[:, -1]).nonzero().squeeze(1) if self._any_short else chosen[:0]
        windows = {"start": first, "n": n, "positions": within, "mask": mask}
        reader = _PieceReader(self.batch.n_rows, windows, short)
        entities = self.batch.entities[sequence.cpu().numpy()]
        return lay_out(self.batch, reader, within, mask, entities)

    def _numbers(self, index: Index) -> Tensor:
        """An index as numbers of windows."""
        n, device = len(self), self.batch.times.device
        numbers = read_index(index, self, device)
        if isinstance(numbers, slice):
            return torch.arange(*numbers.indices(n), device=device)
        if numbers.dtype == torch.bool:
            if len(numbers) != n:
                raise IndexError(f"the mask must have {n} entries, one a window, got {len(numbers)}")
            return numbers.nonzero().squeeze(1)
        outside = (numbers < -n) | (numbers >= n)
        if bool(outside.any()):
            raise IndexError(f"windows must be numbered from 0 to {n - 1}, got {int(numbers[outside][0])}")
        return torch.where(numbers < 0, numbers + n, numbers)


class _PieceReader:
    """Reads a window as the one piece of memory that it is; those that are padded, row by row.

    Args:
        n_rows: rows of the batch.
        windows: arguments of RowReader.
        short: numbers of those that are padded.
    """

    def __init__(self, n_rows: int, windows: dict[str, Tensor], short: Tensor) -> None:
        self._windows, self._short = windows, short
        self._n, self._length = windows["mask"].shape
        self._n_pieces = n_rows - self._length + 1
        self._first = windows["start"].clamp(max=max(self._n_pieces - 1, 0))
        self._padded = RowReader(**{name: part[short] for name, part in windows.items()})

    def dense(self, column: Tensor, fill: Any) -> Tensor:
        if self._n_pieces < 1:  # then all of them are short
            return self._padded.dense(column, fill)
        width = column[:1].numel()
        pieces = column.contiguous().as_strided((self._n_pieces, self._length * width), (width, 1))
        out = pieces.index_select(0, self._first).view(self._n, self._length, *column.shape[1:])
        if len(self._short):
            out[self._short] = self._padded.dense(column, fill)
        return out

    def cells(self, column: Ragged) -> Ragged:
        return RowReader(**self._windows).cells(column)
