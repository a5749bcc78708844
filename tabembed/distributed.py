"""One fit, and one transform, on many processes: a thin adapter to dask.

Encoders, and what tasks find, travel by dask's own pickle. That is no hole beside those that a cluster has:
its workers are the user's own and run what it is sent. A saved folder would keep out nobody, and the state of
a fit is none of what it holds. Send nothing to a scheduler that you would not let run code here.
"""

from __future__ import annotations

import copy
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tabembed.sequence import SequenceEncoder
from tabembed.table import TableEncoder
from tabembed.table.encoded import encoded_schema, encoded_table
from tabembed.table.out_file import check_out
from tabembed.table.parquet import BATCH_ROWS, file_fragments, open_dataset, tables_of
from tabembed.table.parts import merge_all
from tabembed.table.warn import held, said_once, warn_user

_TASK_ROWS = 2**20
_FAN_IN = 4


def fit(encoder: Any, source: Any, *, columns: Sequence[str] | None = None, client: Any = None) -> Any:
    """Fit an encoder on the workers of a cluster: the fit of all rows at once.

    A task counts the rows of some groups of rows of a file, or of one partition of a dask frame; workers
    merge what they have counted, and this process gives out the ids. Who counted which rows, and how often a
    task was begun anew because a worker had died, changes nothing.

    Args:
        encoder: ``TableEncoder`` or ``SequenceEncoder``. It is fitted in place, and returned.
        source: a dask DataFrame; or parquet files that every worker can read: path of a file or a folder,
            a list of paths of files, or a ``pyarrow.dataset.Dataset``.
        columns: names of the columns that the table has; ``None`` for all.
        client: a ``distributed.Client``; ``None`` takes the scheduler that dask has in force, which is
            threads of this process where there is no cluster.

    Raises:
        ImportError: where dask is not installed.
        FileNotFoundError: when there is no such file or folder.
        ValueError: for what is no parquet, columns that are not there, no rows.
        TypeError: for another kind of encoder or source, and for columns whose types do not go together.

    >>> import tempfile, pyarrow as pa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"city": ["Oslo", "Rome", "Rome"]}), f"{folder}/a.parquet")
    ...     encoder = fit(TableEncoder(), folder)
    >>> encoder.categories_["city"].tolist()
    ['Rome', 'Oslo']
    """
    if not isinstance(encoder, TableEncoder | SequenceEncoder):
        raise TypeError(f"encoder must be a TableEncoder or a SequenceEncoder, got {type(encoder).__name__}")
    delayed = _dask().delayed
    plain = delayed(clone(encoder), traverse=False)  # one for all tasks, without what an earlier fit knew
    states = [delayed(_counted)(plain, part, columns) for part in _parts(source, columns)]
    while len(states) > 1:
        groups = [states[i : i + _FAN_IN] for i in range(0, len(states), _FAN_IN)]
        states = [delayed(_merged)(plain, group) for group in groups]
    return encoder.finalize(_computed(states, client)[0])


def transform(encoder: TableEncoder, source: Any, out: str | os.PathLike[str], *, client: Any = None) -> None:
    """Encode a partitioned table on the workers of a cluster, into a folder of parquet files.

    Columns are those of ``TableEncoder.transform_parquet``, and rows keep their order, from ``part-00000``
    on. The folder appears when it is complete: parts are written into a hidden one beside it, each under
    another name at first. After an interruption the same call, of the same encoder and unchanged files, goes
    on with the parts that are not there yet; any other begins a hidden folder of its own.

    Args:
        encoder: a fitted ``TableEncoder``.
        source: as for ``fit``.
        out: a folder that is empty or not there yet, where every worker can write.
        client: as for ``fit``.

    Raises:
        ImportError: where dask is not installed.
        FileNotFoundError: when there is no such source, or no folder to write into.
        FileExistsError: when something stands in ``out``.
        ValueError: for what is no parquet, columns that are not there, and an ``out`` in the source.
        TypeError: for another kind of encoder or source.

    >>> import tempfile, pyarrow as pa
    >>> encoder = TableEncoder().fit({"city": ["Oslo", "Rome", "Rome"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"city": ["Rome", "Bonn"]}), f"{folder}/a.parquet")
    ...     transform(encoder, f"{folder}/a.parquet", f"{folder}/ids")
    ...     pq.read_table(f"{folder}/ids")["city"].to_pylist()
    [3, 2]
    """
    if not isinstance(encoder, TableEncoder):
        raise TypeError(f"encoder must be a TableEncoder, got {type(encoder).__name__}")
    check_is_fitted(encoder, "schema_")
    delayed, out = _dask().delayed, Path(out).resolve()
    check_out(out, [source] if isinstance(source, str | os.PathLike) else [], is_folder=True)
    names = list(encoder.columns_) if encoder._named else None
    parts = list(_parts(source, names))
    folder = out.with_name(f".{out.name}.{_fingerprint(encoder, source, parts)}")
    folder.mkdir(exist_ok=True)
    plain: Any = copy.copy(encoder)
    plain._state = None  # what a fit can go on from, which may be large
    one = delayed(plain, traverse=False)
    paths = [folder / f"part-{i:05}.parquet" for i in range(len(parts))]
    tasks = [delayed(_written)(one, part, names, path) for part, path in zip(parts, paths, strict=True)]
    with said_once():
        for texts in _computed(tasks, client):
            for text in texts:
                warn_user(text)
    for unfinished in folder.glob(".*"):
        unfinished.unlink()
    os.replace(folder, out)


def _dask() -> Any:
    try:
        return import_module("dask")
    except ImportError:
        raise ImportError(
            "tabembed.distributed must have dask, got none: pip install 'tabembed[distributed]'"
        ) from None


def _computed(tasks: list[Any], client: Any) -> Sequence[Any]:
    return list(_dask().compute(*tasks) if client is None else client.gather(client.compute(tasks)))


def _is_dask(source: Any) -> bool:
    return hasattr(source, "to_delayed") and hasattr(source, "columns")


def _parts(source: Any, columns: Sequence[str] | None) -> Iterator[Any]:
    """What one task takes: a partition of a dask frame, yet to be made, or a dataset of neighbouring rows."""
    if _is_dask(source):
        yield from (source if columns is None else source[list(columns)]).to_delayed()
        return
    dataset = open_dataset(source, columns)
    for fragment in file_fragments(dataset):
        for groups in _neighbours(fragment.row_groups):
            part = fragment.subset(row_group_ids=groups) if groups else fragment
            yield ds.FileSystemDataset([part], dataset.schema, fragment.format, fragment.filesystem)


def _neighbours(groups: Sequence[Any]) -> Iterator[list[int]]:
    """Numbers of neighbouring groups of rows, a task's worth of rows each; of no groups one empty list."""
    chosen: list[int] = []
    n_rows = 0
    for group in groups:
        if chosen and n_rows + group.num_rows > _TASK_ROWS:
            yield chosen
            chosen, n_rows = [], 0
        chosen.append(group.id)
        n_rows += group.num_rows
    yield chosen


def _counted(encoder: Any, part: Any, columns: Sequence[str] | None) -> Any:
    return merge_all((encoder.partial(table) for table in _tables(part, columns)), encoder.merge_states)


def _merged(encoder: Any, states: list[Any]) -> Any:
    return merge_all(states, encoder.merge_states)


def _tables(part: Any, columns: Sequence[str] | None) -> Iterator[Any]:
    if isinstance(part, ds.Dataset):
        yield from tables_of(part, columns, BATCH_ROWS)
    else:
        yield part


def _written(encoder: TableEncoder, part: Any, columns: Sequence[str] | None, path: Path) -> list[str]:
    """Write one part, unless it is there; what there was to warn of."""
    if path.exists():
        return []
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with held() as texts, pq.ParquetWriter(unfinished, encoded_schema(encoder.schema_)) as writer:
        for table in _tables(part, columns):
            writer.write_table(encoded_table(encoder.transform(table), encoder.schema_))
    os.replace(unfinished, path)
    return texts


def _fingerprint(encoder: TableEncoder, source: Any, parts: list[Any]) -> str:
    """Tells one transform from another: by what the encoder knows, and by the files' sizes and times."""
    config, arrays = encoder.to_artifact()
    seen = sha256(json.dumps(config, sort_keys=True).encode())
    for name in sorted(arrays):
        seen.update(name.encode() + arrays[name].tobytes())
    if _is_dask(source):
        seen.update(_dask().base.tokenize(source).encode())
        return seen.hexdigest()[:16]
    for part in parts:
        (fragment,) = part.get_fragments()
        file = part.filesystem.get_file_info(fragment.path)
        groups = [group.id for group in fragment.row_groups]
        seen.update(f"{file.path} {file.size} {file.mtime_ns} {groups}".encode())
    return seen.hexdigest()[:16]
