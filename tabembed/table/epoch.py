"""Which epoch it is and how far it has come, known to a loader and to its copies in workers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.utils.data import get_worker_info

from tabembed._checks import check_integer

_EPOCH, _START, _N_WORKERS, _ELSEWHERE, _BEGUN = range(5)
_MOST_WORKERS = 4096


@dataclass(frozen=True)
class Pass:
    """What one process gives out in one pass.

    Args:
        epoch: number of the epoch.
        part: which part of the batches, ``None`` before they are shared out.
        n_parts: number of parts, one a worker.
        done: batches of the part that have been given out before.
    """

    epoch: int
    part: int | None
    n_parts: int
    done: int


class Epoch:
    """Number of the epoch, and of the batches of it that have been given out.

    Workers are copies of a loader, and may outlive an epoch: what they are told, and what they tell, stands
    in memory that all of them share. A ``DataLoader`` takes a batch of every worker in turn, so one number
    says which batches the training has had, and where to go on: the worker whose turn it is becomes the
    first one.

    >>> epoch = Epoch()
    >>> epoch.set(3)
    >>> epoch.begin()
    (Pass(epoch=3, part=0, n_parts=1, done=0), 0)
    """

    def __init__(self) -> None:
        self._shared = torch.zeros(_BEGUN + _MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._own: tuple[int, int] | None = None
        self._pass = Pass(0, None, 1, 0)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._shared.share_memory_()  # a copy's workers share the copy's

    def set(self, number: int) -> None:
        """Say which epoch it is; another one starts at its beginning."""
        check_integer(0, epoch=number)
        if number != self._shared[_EPOCH]:
            self._go_to(Pass(int(number), None, 1, 0))

    def begin(self) -> tuple[Pass, int]:
        """Begin a pass in this process: all of it, and the part that is this process's own.

        Raises: ValueError for another number of workers than that of the state to go on from, and for more
            than 4096.
        """
        info, shared = get_worker_info(), self._shared
        worker, n = (0, 1) if info is None else (info.id, info.num_workers)
        if n > _MOST_WORKERS:
            raise ValueError(f"num_workers must be at most {_MOST_WORKERS}, got {n}")
        start = 0 if shared[_BEGUN + worker] else int(shared[_START])
        if (start or self._own) and n != shared[_N_WORKERS]:
            raise ValueError(f"num_workers must be {int(shared[_N_WORKERS])} as in the state, got {n}")
        part = (worker + start) % n
        done = start // n + (part < start % n)
        if self._own is not None:
            (part, done), self._own = self._own, None
        shared[_BEGUN + worker], shared[_N_WORKERS], shared[_ELSEWHERE] = 1, n, info is not None
        self._pass = Pass(int(shared[_EPOCH]), part, n, done)
        return self._pass, part

    def count(self, done: int) -> None:
        """Keep how many batches of its part this process has given out."""
        self._pass = replace(self._pass, done=done)

    def state(self, n_batches: int | None) -> dict[str, Any]:
        """Where the pass stands in this process, or after some batches of all workers.

        Raises: ValueError without their number where workers give out the batches.
        """
        elsewhere = get_worker_info() is None and bool(self._shared[_ELSEWHERE])
        if n_batches is not None:
            check_integer(0, n_batches=n_batches)
            n = int(self._shared[_N_WORKERS]) if elsewhere else self._pass.n_parts
            return asdict(Pass(int(self._shared[_EPOCH]), None, n, int(n_batches)))
        if elsewhere:
            raise ValueError(
                "n_batches must be given where workers make the batches, as they read ahead: "
                "how many of this epoch the training has had"
            )
        return asdict(self._pass)

    def load(self, state: dict[str, Any]) -> None:
        """Go on, in the next pass, where ``state`` was taken.

        Raises: ValueError where one worker's state is given to another process.
        """
        saved = Pass(**state)
        if saved.part is None or saved.n_parts == 1:
            self._go_to(saved)
            return
        info = get_worker_info()
        if info is None or info.num_workers != saved.n_parts:
            raise ValueError(
                f"state must go to one of {saved.n_parts} workers, as it was taken in one; "
                "in the main process state_dict(n_batches) takes one of all of them"
            )
        self._shared[_EPOCH], self._shared[_N_WORKERS] = saved.epoch, saved.n_parts
        self._own, self._pass = (saved.part, saved.done), saved

    def _go_to(self, place: Pass) -> None:
        self._shared.zero_()
        self._shared[_EPOCH], self._shared[_START], self._shared[_N_WORKERS] = (
            place.epoch,
            place.done,
            place.n_parts,
        )
        self._pass, self._own = place, None
