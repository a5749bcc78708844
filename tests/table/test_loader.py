"""Batches from parquet files: every row once, whoever shares the work, and what is left after a stop."""

from __future__ import annotations

import copy
import pickle
from itertools import islice

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch.utils.data import DataLoader, get_worker_info

from tabembed import Categorical, ParquetBatches, TableEmbedding, TableEncoder

SIZES = [7, 0, 1, 12, 3, 20, 1]
"""Rows of the groups of the files below."""


def table(n_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n_rows), "s")
    return pd.DataFrame(
        {
            "number": np.arange(n_rows),
            "city": rng.choice(["Rome", "Oslo", "Bonn", None], n_rows),
            "age": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(40, 10, n_rows)),
            "joined": when,
            "tags": pd.Series([["a", "b"][: i % 3] for i in range(n_rows)], dtype=object),
            "late": rng.random(n_rows) < 0.5,
        }
    )


def write(frame: pd.DataFrame, folder, sizes=SIZES, files=2):
    """Groups of rows of these sizes, laid in turn into so many files."""
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    begins = np.append(0, np.cumsum(sizes))
    folder.mkdir(exist_ok=True)
    each = -(-len(sizes) // files)
    for i in range(files):
        with pq.ParquetWriter(folder / f"{i}.parquet", arrow.schema) as writer:
            for low, high in zip(begins[:-1][i * each :][:each], begins[1:][i * each :][:each], strict=True):
                writer.write_table(arrow.slice(low, high - low), row_group_size=max(high - low, 1))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    frame = table(sum(SIZES))
    encoder = TableEncoder(["number", "city", "age", "joined", "tags"], scaler="standard").fit(frame)
    return write(frame, tmp_path_factory.mktemp("made") / "rows"), encoder, frame


def plain(batch):
    """Rows of a batch as values that can be compared and sorted, NaN-free."""
    lanes = [batch.ids, batch.values, batch.missing, batch.times]
    rows = list(zip(*(lane.tolist() for lane in lanes), strict=True))
    lists = [r.take(torch.arange(len(batch))) for r in batch.lists.values()]
    cells = [
        [
            (r.ids[a:b].tolist(), m)
            for a, b, m in zip(r.offsets[:-1], r.offsets[1:], r.missing.tolist(), strict=True)
        ]
        for r in lists
    ]
    return list(zip(rows, *cells, strict=True))


def rows_of(batches):
    return [row for batch in batches for row in plain(batch[0] if isinstance(batch, tuple | list) else batch)]


def expected(encoder, frame):
    return plain(encoder.transform(frame))


# In order


@pytest.mark.parametrize("batch_size", [1, 7, 44, 100])
def test_batches_are_the_rows_in_order(made, batch_size):
    folder, encoder, frame = made
    batches = ParquetBatches(folder, encoder, batch_size=batch_size)
    found = list(DataLoader(batches, batch_size=None))
    assert rows_of(found) == expected(encoder, frame)
    assert [len(b) for b in found[:-1]] == [batch_size] * (len(found) - 1)
    assert len(batches) == len(found) == -(-44 // batch_size)
    full = ParquetBatches(folder, encoder, batch_size=batch_size, drop_last=True)
    assert rows_of(full) == expected(encoder, frame)[: 44 // batch_size * batch_size]
    assert len(full) == 44 // batch_size


@pytest.mark.parametrize("source", ["folder", "file", "files", "dataset"])
def test_every_source_is_read(made, source):
    folder, encoder, frame = made
    given = {
        "folder": (str(folder), frame),
        "file": (folder / "1.parquet", frame[20:]),
        "files": ([folder / "1.parquet", folder / "0.parquet"], pd.concat([frame[20:], frame[:20]])),
        "dataset": (ds.dataset(folder), frame),
    }
    found, rows = given[source]
    assert rows_of(ParquetBatches(found, encoder, batch_size=5)) == expected(encoder, rows)


def test_one_row_and_no_text_written_out(tmp_path):
    frame = pd.DataFrame({"city": ["Rome"], "km": [1.0]})
    encoder = TableEncoder(scaler=None).fit(frame)
    frame.to_parquet(tmp_path / "a.parquet")
    (batch,) = ParquetBatches(tmp_path, encoder)
    assert (batch.ids.tolist(), batch.values.tolist()) == ([[3]], [[1.0]])


def test_names_of_folders_are_a_column(tmp_path):
    frame = pd.DataFrame({"year": [2013, 2013, 2014], "km": [1.0, 2.0, 3.0]})
    frame.to_parquet(tmp_path / "rows", partition_cols=["year"])
    encoder = TableEncoder({"year": Categorical()}, scaler=None).fit(frame)
    batches = ParquetBatches(tmp_path / "rows", encoder, batch_size=2)
    assert rows_of(batches) == expected(encoder, frame)


def test_an_encoder_without_names_goes_by_position(tmp_path):
    array = np.array([[1.0, 5.0], [2.0, 4.0], [4.0, 3.0]])
    encoder = TableEncoder().fit(array)
    pd.DataFrame(array, columns=["a", "b"]).assign(y=[1, 2, 3]).to_parquet(tmp_path / "a.parquet")
    ((batch, y),) = ParquetBatches(tmp_path, encoder, target="y")
    assert batch.values.equal(encoder.transform(array).values)
    assert y.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="X has 3 features, but TableEncoder is expecting 2 features"):
        ParquetBatches(tmp_path, encoder)


def test_files_whose_types_differ_are_read_as_one(tmp_path):
    pq.write_table(pa.table({"km": [1, 2], "city": pa.array(["Oslo", None])}), tmp_path / "a.parquet")
    city = pa.array(["Rome", "Oslo"], pa.large_string()).dictionary_encode()
    pq.write_table(pa.table({"km": [0.5, None], "city": city}), tmp_path / "b.parquet")
    frame = pd.DataFrame({"km": [1, 2, 0.5, np.nan], "city": ["Oslo", None, "Rome", "Oslo"]})
    encoder = TableEncoder().fit(frame)
    assert rows_of(ParquetBatches(tmp_path, encoder, batch_size=3)) == expected(encoder, frame)


def test_a_batch_has_memory_of_its_own(made):
    folder, encoder, frame = made
    for shuffle in (False, True):
        batches = list(ParquetBatches(folder, encoder, batch_size=8, target="late", shuffle=shuffle))
        lanes = [lane for batch, y in batches for lane in (*batch._flat().values(), y)]
        assert all(lane.is_contiguous() for lane in lanes)
        sizes = [lane.untyped_storage().nbytes() for lane in lanes]
        assert sizes == [lane.numel() * lane.element_size() for lane in lanes]


# Shuffled


@pytest.mark.parametrize("shuffle", [1, 10, True])
@pytest.mark.parametrize("batch_size", [1, 5, 44])
def test_every_row_comes_once(made, batch_size, shuffle):
    folder, encoder, frame = made
    batches = ParquetBatches(folder, encoder, batch_size=batch_size, shuffle=shuffle, target="late")
    found = list(batches)
    assert rows_of(found) != expected(encoder, frame)
    assert sorted(rows_of(found), key=repr) == sorted(expected(encoder, frame), key=repr)
    late = dict(zip(map(repr, expected(encoder, frame)), frame["late"], strict=True))
    assert [late[repr(row)] for row in rows_of(found)] == torch.cat([y for _, y in found]).tolist()


def test_seed_and_epoch_decide_the_order_and_nothing_else(made):
    folder, encoder, _ = made
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state().clone(), np.random.get_state()[1].copy()
    orders = {}
    for seed in (0, 1):
        batches = ParquetBatches(folder, encoder, batch_size=5, shuffle=True, seed=seed)
        for epoch in (0, 1):
            batches.set_epoch(epoch)
            orders[seed, epoch] = rows_of(batches)
            assert rows_of(batches) == orders[seed, epoch]
    assert len(set(map(repr, orders.values()))) == 4
    assert torch.get_rng_state().equal(before[0])
    assert (np.random.get_state()[1] == before[1]).all()


def test_a_shuffle_mixes_groups_of_rows(tmp_path):
    """Rows of every quarter of the file come to every quarter of an epoch about equally often."""
    n = 60
    frame = pd.DataFrame({"n": np.arange(float(n))})
    encoder = TableEncoder(scaler=None).fit(frame)
    write(frame, tmp_path / "rows", [5] * 12)
    batches, places = ParquetBatches(tmp_path / "rows", encoder, shuffle=True, batch_size=n), np.zeros((n, n))
    for epoch in range(40):
        batches.set_epoch(epoch)
        (batch,) = batches
        places[np.arange(n), batch.values[:, 0].long().numpy()] += 1
    share = places.reshape(4, 15, 4, 15).sum((1, 3)) / places.sum() * 16
    assert (np.abs(share - 1) < 0.3).all()


# Ranks and workers


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
@pytest.mark.parametrize("batch_size", [2, 3, 11, 50])
def test_ranks_share_all_rows_in_equally_many_batches(made, batch_size, n_ranks):
    folder, encoder, frame = made
    found = []
    for rank in range(n_ranks):
        batches = ParquetBatches(
            folder, encoder, batch_size=batch_size, shuffle=4, shard=(rank, n_ranks), target="late"
        )
        found.append(list(batches))
        assert len(batches) == len(found[-1])
    assert len({len(part) for part in found}) == 1
    assert all(0 < len(y) <= batch_size for part in found for _, y in part)
    rows = [sum(len(y) for _, y in part) for part in found]
    assert max(rows) - min(rows) <= 1
    all_rows = [row for part in found for row in rows_of(part)]
    assert sorted(all_rows, key=repr) == sorted(expected(encoder, frame), key=repr)


@pytest.mark.parametrize("n_ranks", [1, 3, 7])
def test_full_batches_are_equally_many_and_leave_few_rows_out(made, n_ranks):
    folder, encoder, frame = made
    parts = [
        list(ParquetBatches(folder, encoder, batch_size=4, shard=(rank, n_ranks), drop_last=True))
        for rank in range(n_ranks)
    ]
    assert [[len(b) for b in part] for part in parts] == [[4] * (44 // n_ranks // 4)] * n_ranks
    assert len({repr(row) for part in parts for row in rows_of(part)}) == 44 // n_ranks // 4 * 4 * n_ranks


def test_rank_and_number_are_those_of_torch_distributed(made, tmp_path, monkeypatch):
    folder, encoder, _ = made
    batches = ParquetBatches(folder, encoder, batch_size=5)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    found = rows_of(batches)
    copied = pickle.loads(pickle.dumps(batches))
    monkeypatch.undo()
    assert found == rows_of(ParquetBatches(folder, encoder, batch_size=5, shard=(1, 3)))
    assert rows_of(copied) == found  # as in a worker that is another process
    assert len(rows_of(batches)) == 44


@pytest.mark.parametrize("n_workers", [1, 2])
def test_workers_share_all_rows(made, n_workers):
    folder, encoder, frame = made
    batches = ParquetBatches(folder, encoder, batch_size=5, shuffle=8, target="late")
    loader = DataLoader(batches, batch_size=None, num_workers=n_workers, persistent_workers=True)
    first, again = list(loader), list(loader)
    assert len(loader) == len(first) == 9
    assert sorted(len(y) for _, y in first) == [4] + [5] * 8
    assert sorted(rows_of(first), key=repr) == sorted(expected(encoder, frame), key=repr)
    assert rows_of(first) == rows_of(again)
    batches.set_epoch(1)  # workers that are there already must hear of it
    other = rows_of(loader)
    assert other != rows_of(first)
    assert sorted(other, key=repr) == sorted(rows_of(first), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_other_processes(made, method):
    folder, encoder, frame = made
    batches = ParquetBatches(folder, encoder, batch_size=5, shuffle=8, target="late")
    loader = DataLoader(
        batches, batch_size=None, num_workers=2, multiprocessing_context=method, persistent_workers=True
    )
    first = rows_of(loader)
    assert sorted(first, key=repr) == sorted(expected(encoder, frame), key=repr)
    batches.set_epoch(1)
    assert rows_of(loader) != first


def test_copies_give_the_same_rows(made):
    folder, encoder, _ = made
    batches = ParquetBatches(folder, encoder, batch_size=5, shuffle=8)
    batches.set_epoch(3)
    for other in (copy.deepcopy(batches), pickle.loads(pickle.dumps(batches))):
        assert rows_of(other) == rows_of(batches)
        other.set_epoch(4)
        loader = DataLoader(other, batch_size=None, num_workers=1, persistent_workers=True)
        found = rows_of(loader)
        other.set_epoch(3)
        assert rows_of(loader) == rows_of(batches) != found


# Going on after a stop


@pytest.mark.parametrize("shuffle", [False, 8, True])
def test_a_pass_goes_on_at_every_place(made, shuffle):
    folder, encoder, _ = made

    def loader(**settings):
        return ParquetBatches(folder, encoder, batch_size=5, shuffle=shuffle, shard=(1, 2), **settings)

    whole = loader()
    whole.set_epoch(2)
    everything = [plain(batch) for batch in whole]
    for n in range(len(everything) + 1):
        begun = loader()
        begun.set_epoch(2)
        had = [plain(batch) for batch in islice(begun, n)]
        state = begun.state_dict()
        resumed = loader()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        resumed.set_epoch(2)  # as a loop over epochs does, from the one that was stopped
        assert had + [plain(batch) for batch in resumed] == everything
        assert [plain(batch) for batch in resumed] == everything  # the pass after it is whole


@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_pass_of_workers_goes_on(made, n):
    folder, encoder, _ = made
    settings = {"batch_size": 5, "shuffle": 8}
    batches = ParquetBatches(folder, encoder, **settings)
    everything = [plain(batch) for batch in DataLoader(batches, batch_size=None, num_workers=2)]
    with pytest.raises(ValueError, match="n_batches must be given where workers make the batches"):
        batches.state_dict()
    state = batches.state_dict(n)
    resumed = ParquetBatches(folder, encoder, **settings)
    resumed.load_state_dict(state)
    loader = DataLoader(resumed, batch_size=None, num_workers=2)
    assert [plain(batch) for batch in loader] == everything[n:]
    assert [plain(batch) for batch in loader] == everything
    if n:
        resumed.load_state_dict(state)
        with pytest.raises(ValueError, match="num_workers must be 2 as in the state, got 1"):
            next(iter(resumed))


class StatefulPart(torch.utils.data.IterableDataset):
    """Gives out, beside every batch, what a loader would keep that asks each worker for its own state."""

    def __init__(self, batches, states=None):
        self.batches, self.states = batches, states

    def __iter__(self):
        info = get_worker_info()
        if self.states is not None:
            self.batches.load_state_dict(self.states[info.id])
        for batch in self.batches:
            yield info.id, self.batches.state_dict(), plain(batch)


def test_every_worker_goes_on_from_its_own_state(made):
    folder, encoder, _ = made
    batches = ParquetBatches(folder, encoder, batch_size=5, shuffle=8)
    everything = list(DataLoader(StatefulPart(batches), batch_size=None, num_workers=2))
    states = {worker: state for worker, state, _ in everything[:5]}
    again = ParquetBatches(folder, encoder, batch_size=5, shuffle=8)
    rest = list(DataLoader(StatefulPart(again, states), batch_size=None, num_workers=2))
    assert sorted((w, rows) for w, _, rows in rest) == sorted((w, rows) for w, _, rows in everything[5:])
    with pytest.raises(ValueError, match="state must go to one of 2 workers, as it was taken in one"):
        again.load_state_dict(states[0])


# Training


def test_a_module_trains_on_the_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(list("abcd"), 400), "km": rng.normal(0, 1, 400)})
    frame["y"] = (frame["city"] == "a") * 2.0 + frame["km"]
    write(frame, tmp_path / "rows", [100] * 4)
    encoder = TableEncoder({"y": "drop"}).fit(frame)
    batches = ParquetBatches(tmp_path / "rows", encoder, batch_size=50, target="y", shuffle=True)
    table_net = TableEmbedding(encoder.schema_, seed=0)
    net = torch.nn.Linear(table_net.output_dim, 1)
    optimiser = torch.optim.Adam([*table_net.parameters(), *net.parameters()], lr=0.1)
    losses = []
    for epoch in range(6):
        batches.set_epoch(epoch)
        losses.append(0.0)
        for batch, y in DataLoader(batches, batch_size=None):
            loss = torch.nn.functional.mse_loss(net(table_net(**batch.tensors()))[:, 0], y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses[-1] += loss.item() / len(batches)
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        (pa.int32(), [3, 1], torch.int64),
        (pa.bool_(), [True, False], torch.int64),
        (pa.float64(), [0.25, 1e30], torch.float32),
        (pa.float16(), [np.float16(0.5), np.float16(2)], torch.float32),
        (pa.decimal128(5, 2), [1, 2], torch.float32),
        (pa.dictionary(pa.int8(), pa.int64()), [7, 9], torch.int64),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_the_dtype_of_the_target(tmp_path, kind, values, dtype):
    y = pa.array(values, kind) if not pa.types.is_dictionary(kind) else pa.array(values).dictionary_encode()
    pq.write_table(pa.table({"km": [1.0, 2.0], "y": y}), tmp_path / "a.parquet")
    encoder = TableEncoder().fit({"km": [1.0, 2.0]})
    ((_, found),) = ParquetBatches(tmp_path, encoder, target="y")
    assert found.dtype == dtype
    assert found.tolist() == torch.tensor([float(v) for v in values]).to(dtype).tolist()


# What is refused


def refused(made, kind, message, source=None, encoder=None, **settings):
    with pytest.raises(kind, match=message):
        ParquetBatches(source or made[0], encoder or made[1], **settings)


def test_what_cannot_be_read_is_refused_at_once(made, tmp_path):
    refused(made, FileNotFoundError, "source must be there", source=tmp_path / "none.parquet")
    (tmp_path / "a.parquet").write_text("no parquet")
    refused(made, ValueError, "source must be parquet files", source=tmp_path / "a.parquet")
    refused(made, TypeError, "source must be a path", source=3)
    memory = ds.dataset(pa.Table.from_pandas(made[2]))
    refused(made, TypeError, "source must be parquet files, got InMemoryDataset", source=memory)
    made[2].drop(columns="age").to_parquet(tmp_path / "b.parquet")
    refused(made, ValueError, "column 'age': must be in the table", source=tmp_path / "b.parquet")
    write(made[2][:0], tmp_path / "empty", [0], 1)
    refused(made, ValueError, "at least one row a rank, got 0 rows for 1", source=tmp_path / "empty")


def test_settings_are_checked(made):
    refused(made, TypeError, "encoder must be a fitted TableEncoder, got str", encoder="x")
    refused(made, NotFittedError, "not fitted", encoder=TableEncoder())
    refused(made, ValueError, "batch_size must be at least 1, got 0", batch_size=0)
    refused(made, TypeError, "batch_size must be an integer, got 2.5", batch_size=2.5)
    refused(made, TypeError, "shuffle must be an integer, got 'yes'", shuffle="yes")
    refused(made, ValueError, "seed must be at least 0, got -1", seed=-1)
    refused(made, TypeError, "drop_last must be True or False, got 1", drop_last=1)
    refused(made, TypeError, r"shard must be \(rank, n_ranks\), got 3", shard=3)
    refused(made, ValueError, "rank must be below the number of ranks, 2, got 2", shard=(2, 2))
    refused(made, ValueError, "at least one row a rank, got 44 rows for 45", shard=(0, 45))
    refused(made, ValueError, "batch_size must be at least 2 for 44 rows", shard=(0, 3), batch_size=1)
    batches = ParquetBatches(made[0], made[1])
    with pytest.raises(ValueError, match="epoch must be at least 0, got -1"):
        batches.set_epoch(-1)
    with pytest.raises(ValueError, match="n_batches must be at least 0, got -1"):
        batches.state_dict(-1)


def test_targets_are_checked(made, tmp_path):
    refused(made, ValueError, "column 'x': must be in the table", target="x")
    refused(made, TypeError, "target must be the name of a column, got 3", target=3)
    refused(made, ValueError, "column 'age': must not be both the target and encoded", target="age")
    city = TableEncoder(["age"]).fit(made[2])
    refused(
        made,
        TypeError,
        "column 'city': must hold numbers or flags to be the target, got text",
        encoder=city,
        target="city",
    )
    age = TableEncoder(["city"]).fit(made[2])
    batches = ParquetBatches(made[0], age, target="age")
    n = int(made[2]["age"].isna().sum())
    message = f"column 'age': must not be missing in the target, got {n} of 44 rows without it"
    with pytest.raises(ValueError, match=message):
        list(batches)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("inf")], "column 'y': must be finite as float32 to be the target, got inf"),
        ([1.0, 1e300], "column 'y': must be finite as float32 to be the target, got 1e[+]300"),
        (np.array([1, 2**63], np.uint64), "column 'y': must fit int64 to be the target"),
    ],
    ids=["inf", "1e300", "2**63"],
)
def test_targets_beyond_their_dtype_are_refused(tmp_path, values, message):
    rows = pd.DataFrame({"x": [1.0, 2.0], "y": values})
    rows.to_parquet(tmp_path / "a.parquet")
    batches = ParquetBatches(tmp_path, TableEncoder(["x"]).fit(rows), target="y")
    with pytest.raises(ValueError, match=message):
        list(batches)


def test_a_state_beyond_an_epoch_is_refused(made):
    batches = ParquetBatches(made[0], TableEncoder(["city"]).fit(made[2]))
    with pytest.raises(ValueError, match="done must be at least 0, got -5"):
        batches.load_state_dict(batches.state_dict() | {"done": -5})
    n = len(batches)
    batches.load_state_dict(batches.state_dict() | {"done": n})
    with pytest.raises(ValueError, match=f"done must be at most the {n} batches of an epoch, got {n + 1}"):
        batches.load_state_dict(batches.state_dict() | {"done": n + 1})


@pytest.mark.parametrize(
    ("setting", "value"),
    [("batch_size", 6), ("shuffle", 9), ("seed", 1), ("drop_last", True), ("shard", (0, 2))],
)
def test_a_state_of_other_settings_is_refused(made, setting, value):
    given = {"batch_size": 5, "shuffle": 8}
    state = ParquetBatches(made[0], made[1], **given).state_dict()
    other = ParquetBatches(made[0], made[1], **{**given, setting: value})
    name = "n_ranks" if setting == "shard" else setting
    with pytest.raises(ValueError, match=f"{name} must be .* as in the state, got"):
        other.load_state_dict(state)


def test_a_file_that_goes_away_is_told(made, tmp_path):
    folder = write(made[2], tmp_path / "rows", files=2)
    batches = ParquetBatches(folder, made[1], batch_size=5)
    (folder / "1.parquet").unlink()
    with pytest.raises(ValueError, match="source must be parquet that can be read, got"):
        list(batches)
