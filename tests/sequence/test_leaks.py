"""The helper finds every kind of leak, lets what is causal pass, and does not pass for want of a trial."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from tabembed import SequenceEmbedding, SequenceEncoder, check_no_leak


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": rng.choice(list("abcd"), n),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 30, n), "D"),
            "place": pd.Categorical(rng.choice(["Rome", "Oslo"], n)),
            "size": pd.Series(rng.integers(0, 50, n)),
            "paid": rng.normal(size=n),
            "open": rng.random(n) < 0.5,
        },
        index=rng.integers(0, 5, n),
    )


SETTINGS = {"entity": "who", "time": "when", "observed": ["paid"]}


def sorted_by_time(frame):
    frame = frame.reset_index(drop=True)
    return frame.sort_values("when", kind="stable")


def own_row(frame):
    return np.column_stack([frame["size"], frame["open"], frame["place"] == "Rome"])


def history(frame):
    """Mean of what was paid before, number of rows and time since the one before."""
    rows = sorted_by_time(frame)
    groups = rows.groupby("who")
    paid = groups["paid"].transform(lambda p: p.shift().expanding().mean())
    gap = groups["when"].diff().dt.total_seconds()
    out = pd.DataFrame({"paid": paid, "count": groups.cumcount(), "gap": gap}).sort_index()
    return out


def of_entity(frame):
    return frame.groupby("who")[["size"]].transform("mean")


def own_observed(frame):
    return frame[["paid"]]


def of_all_rows(frame):
    return (frame[["size"]] - frame["size"].mean()).to_numpy()


def number_of_rows(frame):
    return frame.groupby("who")["size"].transform("size").to_frame()


def next_gap(frame):
    rows = sorted_by_time(frame)
    return -rows.groupby("who")[["when"]].diff(-1).sort_index().apply(lambda c: c.dt.total_seconds())


def last_seen(frame):
    return (frame.groupby("who")["when"].transform("max") - frame["when"]).dt.total_seconds().to_frame()


def earlier_of_all(frame):
    """Past rows alone, but of every entity."""
    rows = sorted_by_time(frame)
    return rows["size"].cumsum().sort_index().to_frame()


def most_common_place(frame):
    return (frame["place"] == frame["place"].mode()[0]).to_numpy(float)[:, None]


CAUSAL = [own_row, history]
LEAKS = {
    of_entity: "later rows",
    own_observed: "its own observed cells changed",
    of_all_rows: "later rows",
    number_of_rows: "later rows were removed",
    next_gap: "later rows",
    last_seen: "later rows",
    earlier_of_all: "rows of other entities got other cells",
    most_common_place: "",
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("transform", CAUSAL)
def test_what_is_causal_passes(transform, seed):
    check_no_leak(transform, table(seed=seed), seed=seed, **SETTINGS)
    check_no_leak(lambda f: torch.tensor(np.asarray(transform(f), dtype=float)), table(seed=seed), **SETTINGS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("transform", "way"), LEAKS.items())
def test_leaks_are_found(transform, way, seed):
    with pytest.raises(AssertionError, match=f"^row .* must not move, got .* after {way}"):
        check_no_leak(transform, table(seed=seed), seed=seed, **SETTINGS)


@pytest.mark.parametrize(
    ("frame", "transform"),
    [
        (
            lambda f: f.drop(columns=["place", "open", "size"]).assign(size=f["size"].astype("Int64")),
            of_all_rows,
        ),
        (lambda f: f[["who", "when"]].assign(size=f["size"].astype("uint8")), of_all_rows),
        (lambda f: f[["who", "when"]].assign(size=7.5), of_all_rows),
        (lambda f: f[["who", "when"]].assign(size=7), of_entity),
        (lambda f: f[["who", "when"]].assign(size=True), of_entity),
    ],
)
def test_columns_of_every_type_are_changed(frame, transform):
    with pytest.raises(AssertionError, match="must not move"):
        check_no_leak(transform, frame(table()), entity="who", time="when")


def test_each_way_finds_what_no_other_does():
    """One change alone betrays each of these."""

    def at_removal(frame):
        return np.full((len(frame), 1), float(len(frame) < 60)) + own_row(frame)

    def at_company(frame):
        return np.full((len(frame), 1), float(len(frame) > 60)) + own_row(frame)

    with pytest.raises(AssertionError, match="after later rows were removed"):
        check_no_leak(at_removal, table(), **SETTINGS)
    with pytest.raises(AssertionError, match="after later rows were added"):
        check_no_leak(at_company, table(), **SETTINGS)
    one = table().assign(who="a")
    with pytest.raises(AssertionError, match="after later rows were removed"):
        check_no_leak(at_removal, one, **SETTINGS)


def test_a_vector_that_comes_or_goes_has_moved():
    def gone(frame):
        hidden = frame["paid"].max() > 3
        return np.where(hidden, np.nan, own_row(frame))

    with pytest.raises(AssertionError, match="must not move, got inf after"):
        check_no_leak(gone, table(), **SETTINGS)


def test_rounding_of_float32_is_no_leak():
    def rounded(frame):
        return own_row(frame) + 4e-6 * np.tanh(frame["paid"].mean())

    check_no_leak(rounded, table(), **SETTINGS)


def test_the_tolerance():
    def nearly(frame):
        return own_row(frame) + 1e-8 * np.tanh(frame["paid"].mean())

    check_no_leak(nearly, table(), **SETTINGS)
    with pytest.raises(AssertionError, match=r"got .*e-0?(8|9|10) after"):
        check_no_leak(nearly, table(), atol=0.0, **SETTINGS)


def test_the_row_that_moved_is_named():
    frame = pd.DataFrame({"who": [7, 7, 8], "when": [1, 2, 1], "paid": [5.0, 7.0, 1.0]})

    def looks_ahead(f):
        return f.groupby("who")[["paid"]].shift(-1).fillna(0.0)

    with pytest.raises(AssertionError, match=r"^row 0 \(7 at 1\) must not move, got \d"):
        check_no_leak(looks_ahead, frame, entity="who", time="when")


def test_equal_times_are_one_instant():
    """In the order of the table a row may know those before it, not those behind."""
    frame = table().assign(when=pd.Timestamp("2024-01-01"))

    def before(f):
        rows = f.reset_index(drop=True)
        return rows.groupby("who")[["paid"]].shift()

    def behind(f):
        rows = f.reset_index(drop=True)
        return rows.groupby("who")[["paid"]].shift(-1)

    check_no_leak(before, frame, **SETTINGS)
    with pytest.raises(AssertionError, match="after its own observed cells changed"):
        check_no_leak(behind, frame, **SETTINGS)


@pytest.mark.filterwarnings("ignore:. rows are left out", "ignore:.. rows are left out")
def test_rows_without_entity_or_time_are_no_bar():
    frame = table()
    frame.iloc[[1, 4], 0] = None
    frame.iloc[[4, 9], 1] = pd.NaT
    encoder = SequenceEncoder("who", "when", ["size"], on_missing="drop").fit(frame)

    def encoded(f):
        batch = encoder.transform(f)
        return batch.to_input_order(batch.rows.values)

    check_no_leak(encoded, frame, entity="who", time="when")


@pytest.mark.parametrize("ties", ["stable", "merge", "strict"])
def test_the_encoders_facts_are_causal(ties):
    frame = table()
    encoder = SequenceEncoder("who", "when", ["size", "place", "paid"], observed=["paid"], ties=ties).fit(
        frame
    )

    def facts(f):
        batch = encoder.transform(f)
        known = torch.cat([batch.elapsed[:, None], batch.gap[:, None], batch.rows.values[:, :1].double()], 1)
        return batch.to_input_order(known)

    def all_cells(f):
        batch = encoder.transform(f)
        return batch.to_input_order(batch.rows.values)

    if ties == "merge":  # the row that stands for others shows what came later within its instant
        facts_of = frame.drop_duplicates(["who", "when"])
        check_no_leak(facts, facts_of, **SETTINGS)
    else:
        check_no_leak(facts, frame, **SETTINGS)
    with pytest.raises(AssertionError, match="after its own observed cells changed"):
        check_no_leak(all_cells, frame, **SETTINGS)


def observed_before(frame):
    """What was paid in the row before, also where that one stands at the same instant."""
    return sorted_by_time(frame).groupby("who")["paid"].shift().sort_index()


def observed_at_earlier_instants(frame):
    """What was paid last before the instant."""
    rows = sorted_by_time(frame)
    paid = rows.groupby(["who", "when"])["paid"].mean().groupby("who").shift().rename("before")
    return rows.join(paid, on=["who", "when"])["before"].sort_index()


def test_rows_at_one_instant_do_not_see_each_other_where_asked():
    frame = table(240)
    assert frame.duplicated(["who", "when"]).any()
    for transform in (observed_before, observed_at_earlier_instants):
        check_no_leak(transform, frame, **SETTINGS)
    check_no_leak(observed_at_earlier_instants, frame, strict=True, **SETTINGS)
    text = r"after observed cells of its instant changed, which ties='strict' keeps apart \(at 2024-01-"
    with pytest.raises(AssertionError, match=text):
        check_no_leak(observed_before, frame, strict=True, **SETTINGS)
    rare = table().assign(when=pd.date_range("2024-01-01", periods=60))  # one instant of 59 is a tie
    rare.iloc[33, :2] = rare.iloc[32, :2].to_numpy()
    with pytest.raises(AssertionError, match=r"keeps apart \(at 2024-02-02"):
        check_no_leak(observed_before, rare, strict=True, **SETTINGS)
    with pytest.raises(ValueError, match="strict must come with observed columns, got none"):
        check_no_leak(own_row, frame, entity="who", time="when", strict=True)


@pytest.mark.parametrize("ties", ["stable", "strict"])
def test_the_encoders_ties(ties):
    frame = table(240)
    encoder = SequenceEncoder("who", "when", ["paid", "size"], observed=["paid"], ties=ties).fit(frame)
    module = SequenceEmbedding(encoder.schema_, d_model=16, num_layers=1, seed=0).eval()

    @torch.no_grad()
    def encoded(f):
        batch = encoder.transform(f)
        return batch.to_input_order(module(**batch.tensors()))

    check_no_leak(encoded, frame, **SETTINGS)
    if ties == "strict":
        check_no_leak(encoded, frame, strict=True, **SETTINGS)
        return
    with pytest.raises(AssertionError, match="which ties='strict' keeps apart"):
        check_no_leak(encoded, frame, strict=True, **SETTINGS)


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(60),
        pd.RangeIndex(7, 67, name="n"),
        pd.Index(np.arange(60)[::-1]),
        pd.Index(np.arange(60) + 196, dtype=np.uint8),
        pd.Index([f"r{i}" for i in range(60)]),
        pd.Index([*range(59), 2**63 - 1]),
        pd.MultiIndex.from_product([[1, 2], range(30)]),
    ],
)
def test_labels_never_repeat(index):
    seen = []

    def by_label(frame):
        seen.append(frame.index)
        assert frame.index.is_unique
        sizes = dict(zip(frame.index, frame["size"], strict=True))
        return pd.Series([sizes[label] for label in frame.index], index=frame.index)

    frame = table().set_axis(index)
    check_no_leak(by_label, frame, **SETTINGS)
    assert len({len(labels) for labels in seen}) > 2
    for labels in seen:
        if isinstance(index, pd.RangeIndex):
            assert labels.equals(pd.RangeIndex(len(labels)))
            assert labels.name == index.name
        elif len(labels) <= 60:
            assert set(labels) <= set(index)
        elif index.dtype.kind in "iu" and index.max() < 2**62:
            assert labels[60:].tolist() == list(range(int(index.max()) + 1, int(index.max()) + 61))
            assert labels[:60].tolist() == index.tolist()
    assert frame.index.equals(index)


@pytest.mark.parametrize("kind", ["float64", "Float64", "Int64", "bool", "boolean"])
def test_one_number_a_row(kind):
    def size(frame):
        return frame["size"].astype("Int64").mask(frame["size"] > 40).fillna(0).astype(kind)

    def missing(frame):
        return frame["size"].astype("Int64").mask(frame["size"] > 40)

    def share(frame):
        return (frame["size"] > frame["size"].median()).astype(kind)

    for causal in (size, missing, lambda f: size(f).to_numpy(float), lambda f: torch.tensor(f["size"].array)):
        check_no_leak(causal, table(), **SETTINGS)
    with pytest.raises(AssertionError, match="must not move"):
        check_no_leak(share, table(), **SETTINGS)


def test_nothing_to_change_or_nothing_that_moves():
    one = table().iloc[:1]
    for frame in (one, table().iloc[:0], one.loc[one.index.repeat(3)]):
        with pytest.raises(
            ValueError, match=r"frame must have rows to change and rows to watch, got \d rows without"
        ):
            check_no_leak(own_row, frame, entity="who", time="when")
    with pytest.raises(
        ValueError, match="transform must depend on the table, got vectors that no change moves"
    ):
        check_no_leak(lambda f: np.zeros((len(f), 2)), table(), **SETTINGS)


@pytest.mark.parametrize("out", [np.zeros((59, 2)), np.zeros(59), 0.0, np.zeros((60, 2, 2))])
def test_not_one_vector_a_row(out):
    with pytest.raises(ValueError, match=r"transform must give 60 vectors, one a row, got shape \("):
        check_no_leak(lambda f: out, table(), **SETTINGS)


def test_tables_and_columns_that_are_not_there():
    with pytest.raises(
        TypeError, match=r"frame must be a pandas table, got DataFrame: call .to_pandas\(\) first"
    ):
        check_no_leak(own_row, pl.DataFrame({"who": ["a"]}), entity="who", time="when")
    with pytest.raises(TypeError, match="observed must be a list of names, got 'paid'"):
        check_no_leak(own_row, table(), **SETTINGS | {"observed": "paid"})
    for settings in ({"entity": "whom"}, {"time": "whom"}, {"observed": ["whom"]}):
        with pytest.raises(ValueError, match="column 'whom': must be in the table, which has"):
            check_no_leak(own_row, table(), **SETTINGS | settings)


def test_the_table_is_never_changed():
    frame = table()
    copy = frame.copy(deep=True)

    def spoils(f):
        f["size"] = 0
        return history(f)

    check_no_leak(spoils, frame, **SETTINGS)
    pd.testing.assert_frame_equal(frame, copy)
