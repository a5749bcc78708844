"""A fit and a transform on many processes give what one process gives, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from dataclasses import asdict

import dask
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from event_tables import events

from tabembed import Continuous, SequenceEncoder, TableEncoder, distributed
from tabembed.table.encoded import encoded_table

N_ROWS = 151


@pytest.fixture
def here(monkeypatch):
    """Tasks of a few rows, run by this process, one after the other."""
    monkeypatch.setattr(distributed, "_TASK_ROWS", 40)
    monkeypatch.setattr(distributed, "BATCH_ROWS", 16)
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes."""
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        LocalCluster(**settings, dashboard_address=None, host="127.0.0.1") as cluster,
        Client(cluster) as found,
    ):
        yield found


def parts_of(seed: int) -> list[pa.Table]:
    """A table cut anywhere: some parts have no rows, one lacks every value of two columns, in some a text is
    a dictionary of that part's own values."""
    rng = np.random.default_rng(seed)
    table = pa.Table.from_pandas(events(N_ROWS, seed, 40), preserve_index=False)
    cuts = [0, *sorted(rng.integers(0, N_ROWS, 5).tolist()), N_ROWS]
    cuts.insert(3, cuts[3])
    parts = [table.slice(low, high - low) for low, high in zip(cuts[:-1], cuts[1:], strict=True)]
    gone = int(np.argmax([len(part) for part in parts]))
    for name, kind in (("paid", pa.float64()), ("place", pa.null())):
        place = parts[gone].schema.get_field_index(name)
        parts[gone] = parts[gone].set_column(place, name, pa.nulls(len(parts[gone]), kind))
    for i in range(0, len(parts), 2):
        if i != gone:
            place = parts[i].schema.get_field_index("place")
            column = pa.array(parts[i]["place"].to_pylist(), pa.string()).dictionary_encode()
            parts[i] = parts[i].set_column(place, "place", column)
    return parts


def written(parts: list[pa.Table], folder) -> tuple[str, pa.Table]:
    """A folder of the parts, in small groups of rows, and the whole table."""
    folder.mkdir()
    for i, part in enumerate(parts):
        pq.write_table(part, folder / f"{i}.parquet", row_group_size=17)
    plain = []
    for part in parts:
        place, column = part.schema.get_field_index("place"), part["place"].to_pylist()
        plain.append(part.set_column(place, "place", pa.array(column, pa.string())))
    return str(folder), pa.concat_tables(plain, promote_options="permissive")


def assert_same_fit(found, wanted):
    """Equal bit by bit, but for means, which are sums in another order."""
    assert found.kinds_ == wanted.kinds_
    for name, values in wanted.categories_.items():
        assert found.categories_[name].tolist() == values.tolist()
    ours, theirs = asdict(found.schema_), asdict(wanted.schema_)
    rows, wanted_rows = (schema.pop("rows", schema) for schema in (ours, theirs))
    for column, other in zip(rows.pop("columns"), wanted_rows.pop("columns"), strict=True):
        for key in ("mean", "std"):
            if key in other:
                assert column.pop(key) == pytest.approx(other.pop(key), rel=1e-12, abs=1e-12)
        assert column == other
    assert ours == theirs


def table_encoder() -> TableEncoder:
    return TableEncoder({"who": "drop", "paid": Continuous("squash")}, min_frequency=2)


def sequence_encoder() -> SequenceEncoder:
    return SequenceEncoder("who", "when", observed=["paid"])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [table_encoder, sequence_encoder])
def test_a_fit_of_parts_is_that_of_all_rows(make, seed, here, tmp_path):
    source, whole = written(parts_of(seed), tmp_path / "in")
    assert_same_fit(distributed.fit(make(), source), make().fit(whole))


def test_a_fit_reads_the_columns_that_are_named(here, tmp_path):
    source, whole = written(parts_of(0), tmp_path / "in")
    names = ["paid", "place"]
    found = distributed.fit(TableEncoder(), ds.dataset(source, schema=whole.schema), columns=names)
    assert found.feature_names_in_.tolist() == names
    assert_same_fit(found, TableEncoder().fit(whole.select(names)))


def test_datasets_that_are_joined_are_one(here, tmp_path):
    source, whole = written(parts_of(0), tmp_path / "in")
    one = ds.dataset(source, schema=whole.schema)
    found = distributed.fit(TableEncoder(["place"]), ds.dataset([one, one]), columns=["place"])
    assert found.schema_.n_rows == 2 * N_ROWS


def test_a_fit_starts_anew_and_is_returned(here, tmp_path):
    source, whole = written(parts_of(1), tmp_path / "in")
    encoder = table_encoder().fit(events(5))
    assert distributed.fit(encoder, source) is encoder
    assert_same_fit(encoder, table_encoder().fit(whole))
    assert_same_fit(encoder.partial_fit(whole), table_encoder().fit(pa.concat_tables([whole, whole])))


def test_a_dask_frame_with_a_partition_without_rows(here):
    import dask.dataframe as dd

    frame = events(60).drop(columns="tags")
    cut = [frame[:20], frame[20:20], frame[20:21].assign(place=None), frame[21:]]
    source = dd.from_map(lambda i: cut[i], range(4), meta=frame[:0])
    wanted = frame.assign(place=frame["place"].where(frame.index != 20))
    for make in (table_encoder, sequence_encoder):
        assert_same_fit(distributed.fit(make(), source), make().fit(wanted))


def test_a_transform_of_parts_is_that_of_all_rows(here, tmp_path):
    source, whole = written(parts_of(2), tmp_path / "in")
    encoder = table_encoder().fit(whole)
    distributed.transform(encoder, source, tmp_path / "out")
    assert (
        ds.dataset(tmp_path / "out")
        .to_table()
        .equals(encoded_table(encoder.transform(whole), encoder.schema_))
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    assert len(list((tmp_path / "out").iterdir())) > 7


def test_a_dask_frame_is_encoded_by_partitions(here, tmp_path):
    import dask.dataframe as dd

    frame = events(60)[["place", "size", "paid", "until"]]
    encoder = TableEncoder().fit(frame)
    distributed.transform(encoder, dd.from_pandas(frame, npartitions=3), tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 3
    assert (
        ds.dataset(tmp_path / "out")
        .to_table()
        .equals(encoded_table(encoder.transform(frame), encoder.schema_))
    )


class Failing(TableEncoder):
    """An encoder whose disk is full after ``left`` batches, once."""

    left = 2

    def transform(self, X):
        Failing.left -= 1
        if Failing.left == -1:
            raise OSError("the disk is full")
        return super().transform(X)


def test_an_interrupted_transform_goes_on(here, tmp_path, monkeypatch):
    monkeypatch.setattr(Failing, "left", 3)  # a part has three batches at most; dask takes any part first
    source, whole = written(parts_of(2), tmp_path / "in")
    out, encoder = tmp_path / "out", Failing(["place", "size"]).fit(whole)
    with pytest.raises(OSError, match="the disk is full"):
        distributed.transform(encoder, source, out)
    assert not out.exists()
    (hidden,) = tmp_path.glob(".out.*")
    done = {path.name: path.stat().st_ino for path in hidden.glob("part-*")}
    assert done
    assert list(hidden.glob(".part-*"))  # the part that was begun has no final name
    distributed.transform(encoder, source, out)
    assert {path.name: path.stat().st_ino for path in out.iterdir()}.items() >= done.items()
    assert ds.dataset(out).to_table().equals(encoded_table(encoder.transform(whole), encoder.schema_))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    assert not list(out.glob(".*"))


@pytest.mark.parametrize("changed", ["encoder", "file"])
def test_a_transform_goes_on_with_nothing_of_another(changed, here, tmp_path, monkeypatch):
    monkeypatch.setattr(Failing, "left", 2)
    source, whole = written(parts_of(2), tmp_path / "in")
    out, encoder = tmp_path / "out", Failing(["place", "size"]).fit(whole)
    with pytest.raises(OSError, match="the disk is full"):
        distributed.transform(encoder, source, out)
    if changed == "encoder":
        encoder = TableEncoder(["place", "size"]).fit(whole.slice(0, 90))
    else:
        whole = whole.set_column(3, "size", pa.array(np.arange(N_ROWS) % 50))
        for i in range(7):
            os.remove(f"{source}/{i}.parquet")
        pq.write_table(whole, f"{source}/0.parquet")
    distributed.transform(encoder, source, out)
    assert ds.dataset(out).to_table().equals(encoded_table(encoder.transform(whole), encoder.schema_))


def test_what_tasks_warn_of_is_said_once(here, tmp_path):
    large = pa.table({"n": np.arange(200) + 2**24 + 1})
    pq.write_table(large, tmp_path / "a.parquet", row_group_size=20)
    encoder = TableEncoder(scaler=None).fit(large)
    with warnings.catch_warnings(record=True, action="always") as said:
        distributed.transform(encoder, tmp_path / "a.parquet", tmp_path / "out")
    (one,) = [w for w in said if issubclass(w.category, UserWarning)]
    assert "column 'n': float32 changes" in str(one.message)
    assert one.filename == __file__


def test_refusals(here, tmp_path, monkeypatch):
    source, whole = written(parts_of(0), tmp_path / "in")
    encoder = table_encoder().fit(whole)
    with pytest.raises(TypeError, match="encoder must be a TableEncoder or a SequenceEncoder, got str"):
        distributed.fit("encoder", source)
    with pytest.raises(TypeError, match="encoder must be a TableEncoder, got SequenceEncoder"):
        distributed.transform(sequence_encoder(), source, tmp_path / "out")
    with pytest.raises(TypeError, match="source must be parquet files, got InMemoryDataset"):
        distributed.fit(table_encoder(), ds.dataset(whole))
    with pytest.raises(ValueError, match="got 0 rows"):
        distributed.fit(TableEncoder(), written([whole[:0]], tmp_path / "empty")[0])
    with pytest.raises(ValueError, match="out must not be the source or lie in it, got '.*out'"):
        distributed.transform(encoder, source, f"{source}/out")
    with pytest.raises(FileNotFoundError, match="out must lie in a folder that is there, got '.*out'"):
        distributed.transform(encoder, source, tmp_path / "absent" / "out")
    for taken in (tmp_path / "in", tmp_path / "in" / "0.parquet"):
        with pytest.raises(FileExistsError, match="out must be a folder that is empty or not there yet, got"):
            distributed.transform(encoder, [f"{source}/0.parquet"], taken)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"must have dask, got none: pip install 'tabembed\[distributed\]'"):
        distributed.fit(encoder, source)


def dying(once, after: int):
    """An encoder of which one process dies at its work, the first one that does it so often."""

    class Dying(TableEncoder):
        def _maybe(self):
            Dying.n = getattr(Dying, "n", 0) + 1
            if Dying.n == after and not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        def partial(self, X):
            self._maybe()
            return super().partial(X)

        def transform(self, X):
            self._maybe()
            return super().transform(X)

    return Dying


@pytest.mark.slow
def test_two_processes_fit_and_encode_as_one_does(client, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "_TASK_ROWS", 40)
    source, whole = written(parts_of(3), tmp_path / "in")
    for make in (table_encoder, sequence_encoder):
        assert_same_fit(distributed.fit(make(), source, client=client), make().fit(whole))
    encoder = table_encoder().fit(whole)
    distributed.transform(encoder, source, tmp_path / "out", client=client)
    assert (
        ds.dataset(tmp_path / "out")
        .to_table()
        .equals(encoded_table(encoder.transform(whole), encoder.schema_))
    )


@pytest.mark.slow
def test_a_process_that_dies_in_a_fit_changes_nothing(client, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "_TASK_ROWS", 20)
    source, whole = written(parts_of(4), tmp_path / "in")
    encoder = dying(tmp_path / "died", after=5)(["place", "size", "paid", "until", "tags"], min_frequency=2)
    distributed.fit(encoder, source, client=client)
    assert (tmp_path / "died").exists()
    assert_same_fit(encoder, TableEncoder(encoder.columns, min_frequency=2).fit(whole))


@pytest.mark.slow
def test_a_process_that_dies_in_a_transform_changes_nothing(client, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "_TASK_ROWS", 20)
    source, whole = written(parts_of(5), tmp_path / "in")
    encoder = dying(tmp_path / "died", after=5)(["place", "size", "paid", "until", "tags"]).fit(whole)
    distributed.transform(encoder, source, tmp_path / "out", client=client)
    assert (tmp_path / "died").exists()
    wanted = encoded_table(TableEncoder(encoder.columns).fit(whole).transform(whole), encoder.schema_)
    assert ds.dataset(tmp_path / "out").to_table().equals(wanted)
