"""Windows of sequences, read many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tabembed._checks import check_integer
from tabembed.batch import Index
from tabembed.sequence.padded import PaddedSequences, Read, lay_out, nearest, reader

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
        return (
            f"Windows({len(self):,} of length {self.length:,}, every {self.stride:,} rows, of {self.batch})"
        )

    def __getitem__(self, index: Index) -> PaddedSequences:
        chosen = self._numbers(index)
        sequence = torch.searchsorted(self._offsets, chosen, right=True) - 1
        n = self.batch.lengths[sequence]
        later = self._offsets[sequence + 1] - 1 - chosen  # windows of the sequence after this one
        first = (n - self.length - later * self.stride).clamp(min=0)
        within = torch.arange(self.length, device=n.device).expand(len(n), -1)
        places = nearest(self.batch, first[:, None] + within, sequence)
        mask = within < n[:, None]
        entities = self.batch.entities[sequence.cpu().numpy()]
        return lay_out(self.batch, self._reader(places, mask), places, mask, within, entities)

    def _numbers(self, index: Index) -> Tensor:
        """An index as numbers of windows."""
        n, device = len(self), self.batch.times.device
        if isinstance(index, slice):
            return torch.arange(*index.indices(n), device=device)
        numbers = torch.as_tensor(index, device=device)
        if numbers.ndim != 1:
            raise TypeError(
                f"Windows must be indexed by a slice, a mask or numbers, got {index!r}; "
                "in a DataLoader use sampler=BatchSampler(...) and batch_size=None"
            )
        if numbers.dtype == torch.bool:
            if len(numbers) != n:
                raise IndexError(f"the mask must have {n} entries, one a window, got {len(numbers)}")
            return numbers.nonzero().squeeze(1)
        numbers = numbers.long() if numbers.numel() == 0 else numbers
        if bool(((numbers < -n) | (numbers >= n)).any()):
            raise IndexError(f"windows must be numbered from 0 to {n - 1}, got {numbers.max().item()}")
        return torch.where(numbers < 0, numbers + n, numbers)

    def _reader(self, places: Tensor, mask: Tensor) -> Read:
        """Reads a window as the one piece of memory that it is, and row by row where it is padded."""
        row_by_row = reader(places, mask)
        if self.batch.n_rows < self.length:
            return row_by_row
        start = places[:, 0].clamp(max=self.batch.n_rows - self.length)
        short = (~mask[:, -1]).nonzero().squeeze(1) if self._any_short else start[:0]
        mend = reader(places[short], mask[short])

        def read(column: Tensor, fill: Any) -> Tensor:
            width = column[:1].numel()
            shape = (len(column) - self.length + 1, self.length * width)
            pieces = column.contiguous().as_strided(shape, (width, 1))
            out = pieces.index_select(0, start).view(len(start), self.length, *column.shape[1:])
            if len(short):
                out[short] = mend(column, fill)
            return out

        return read
