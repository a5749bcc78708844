"""The whole path, from a frame to a vector: cases of the casebook, and what a user's table may hold."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import reference
import torch
from torch.testing import assert_close

from tabembed.estimators import SequenceEmbedder
from tabembed.nn import SequenceEmbedding
from tabembed.sequence import SequenceEncoder, check_no_leak
from tabembed.table import TableEncoder

POSITIONS = ["rotary", "alibi", "decay", "sinusoidal", "learned", None, "gru"]
CLOCKS = ["time", "index"]
SCHEMES = pytest.mark.parametrize("position", POSITIONS)
BOTH_CLOCKS = pytest.mark.parametrize("clock", CLOCKS)
DAY = 86_400 * 10**9
NEW_YORK = "America/New_York"


def events(sizes=(3, 5), seed=0):
    """Rows of some entities, shuffled: names, numbers with gaps, and what is known afterwards."""
    rng = np.random.default_rng(seed)
    who = np.repeat([f"e{i:03}" for i in range(len(sizes))], sizes)
    n = len(who)
    frame = pd.DataFrame(
        {
            "who": who,
            "when": pd.Timestamp("2024-03-01 12:00") + pd.to_timedelta(rng.integers(0, 10**6, n), "s"),
            "place": rng.choice(["Rome", "Oslo", "Bonn"], n),
            "size": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "late": rng.normal(size=n),
            "how": rng.choice(["well", "badly"], n),
        }
    )
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def an_encoder(**settings):
    return SequenceEncoder("who", "when", observed=["late", "how"], **settings)


def fitted(frame=None, **settings):
    return an_encoder(**settings).fit(events((7, 9, 4)) if frame is None else frame)


def module_of(encoder, position="rotary", clock="time", **settings):
    settings = {"d_model": 32, "seed": 0} | settings
    return SequenceEmbedding(encoder.schema_, position, clock=clock, **settings).eval()


@torch.no_grad()
def vectors(module, encoder, frame):
    """One vector a row of the frame, in its order."""
    batch = encoder.transform(frame)
    return batch.to_input_order(module.rows(**batch.tensors()))


def with_cell(frame, row, **cells):
    """A copy with other cells in a row."""
    changed = frame.copy()
    for name, cell in cells.items():
        changed.loc[row, name] = cell
    return changed


def by_time(frame, who):
    return frame.index[frame["who"] == who][frame.loc[frame["who"] == who, "when"].argsort(kind="stable")]


# H13: padding


def with_garbage(rows, mask, seed):
    """Any content where nothing real is."""
    generator = torch.Generator().manual_seed(seed)
    garbage = {}
    for name, tensor in rows.items():
        if tensor.dtype == torch.bool:
            other = torch.rand(tensor.shape, generator=generator) < 0.5
        elif tensor.is_floating_point():
            other = torch.full_like(tensor, torch.nan)
        else:
            other = torch.randint(-(2**40), 2**40, tensor.shape, generator=generator)
        garbage[name] = torch.where(mask.unsqueeze(-1), tensor, other)
    return garbage


@pytest.mark.parametrize("garbage", [None, 0, 1])
@pytest.mark.parametrize("side", ["left", "right"])
@BOTH_CLOCKS
@SCHEMES
def test_padded_rows_are_those_of_the_sequence_alone(position, clock, side, garbage):  # H13
    encoder = fitted()
    module, frame = module_of(encoder, position, clock), events((3, 5))
    batch = encoder.transform(frame)
    assert batch.lengths.tolist() == [3, 5]
    padded = batch.padded(side)
    assert padded.mask.sum(1).tolist() == [3, 5]
    assert padded.positions[0][padded.mask[0]].tolist() == [0, 1, 2]
    tensors = padded.tensors()
    if garbage is not None:
        tensors["rows"] = with_garbage(tensors["rows"], padded.mask, garbage)
        tensors["times"] = torch.where(padded.mask, padded.times, -(2**60) + garbage * 2**61)
    alone = batch[torch.tensor([0])].tensors()
    with torch.no_grad():
        out = module(**tensors)
        unpadded = module(alone["rows"], alone["times"])
        packed = module(**batch.tensors())
    assert out.shape == (2, 5, 32)
    assert_close(out[0][padded.mask[0]], unpadded, rtol=0, atol=1e-5)
    assert_close(out[padded.mask], packed, rtol=0, atol=1e-5)
    assert (out[~padded.mask] == 0).all()
    assert (unpadded[0] - unpadded[1]).abs().max() > 0.01


@BOTH_CLOCKS
@SCHEMES
def test_a_row_at_a_time_gives_the_numbers_of_the_whole(position, clock):
    encoder = fitted()
    module, frame = module_of(encoder, position, clock), events((5, 5))
    padded = encoder.transform(frame).padded()
    state, steps = None, []
    with torch.no_grad():
        whole = module.rows(**padded.tensors())
        for start, stop in ((0, 2), (2, 3), (3, 5)):
            rows = {name: tensor[:, start:stop] for name, tensor in padded.rows.items()}
            out, state = module.step(state, rows, padded.times[:, start:stop])
            steps.append(out)
    assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-5)


# H14: batch-mates


@BOTH_CLOCKS
@SCHEMES
def test_batch_mates_move_nothing(position, clock):  # H14
    encoder = fitted()
    module = module_of(encoder, position, clock)
    frame = events((3, 7, 1, *(2 + i % 9 for i in range(61))))
    a, b, c = (frame[frame["who"] == f"e{i:03}"] for i in range(3))
    alone = vectors(module, encoder, a)
    assert len(alone) == 3
    for others in ([a, b], [c, b, a], [b, a, c]):
        together = pd.concat(others)
        out = vectors(module, encoder, together)[torch.tensor((together["who"] == "e000").tolist())]
        assert_close(out, alone, rtol=0, atol=1e-6)
    out = vectors(module, encoder, frame)[torch.tensor((frame["who"] == "e000").tolist())]
    assert frame["who"].nunique() == 64
    assert_close(out, alone, rtol=0, atol=1e-6)
    with torch.no_grad():
        batch = encoder.transform(frame)
        padded = batch.padded("left")
        first = module(**padded.tensors())[0][padded.mask[0]]
        assert_close(first, module(**batch[torch.tensor([0])].tensors()), rtol=0, atol=1e-6)


# H15: equal times


def tied():
    p = np.arange(40)
    return pd.DataFrame({"who": "a", "when": p % 3, "place": [f"p{i:02}" for i in p]})


def test_equal_times_keep_their_input_order():  # H15
    expected = [*range(0, 40, 3), *range(1, 40, 3), *range(2, 40, 3)]
    frame = tied()
    encoder = SequenceEncoder("who", "when").fit(frame)
    whole = encoder.transform(frame)
    assert whole.row.tolist() == expected
    ids = encoder.table_encoder_.transform(frame).ids
    assert whole.rows.ids.equal(ids[expected])
    for _ in range(3):
        assert encoder.transform(frame).row.tolist() == expected
    for size in (1, 3, 7, 16, 39):
        chunked = encoder.transform(frame[:size])
        for start in range(size, 40, size):
            chunked = encoder.append(chunked, frame[start : start + size])
        assert chunked.row.tolist() == expected
        assert chunked.rows.ids.equal(whole.rows.ids)


# H16: unsorted rows


def unsorted():
    frame = pd.DataFrame({"who": ["g", "g", "g"], "when": [30, 10, 20], "place": ["c", "a", "b"]})
    return frame.set_index(pd.Index([7, 7, 2]))


def test_results_lie_on_the_rows_they_came_from():  # H16
    frame = unsorted()
    encoder = SequenceEncoder("who", "when").fit(frame)
    batch = encoder.transform(frame)
    assert batch.to_input_order(torch.arange(3.0)).tolist() == [2, 0, 1]
    assert batch.padded().positions.tolist() == [[0, 1, 2]]
    module = module_of(encoder)
    in_order = encoder.transform(frame.sort_values("when"))
    assert in_order.rows.ids.equal(batch.rows.ids)
    assert encoder.table_encoder_.categories_["place"][batch.rows.ids[:, 0] - 3].tolist() == ["a", "b", "c"]
    with torch.no_grad():
        encodings = module(**in_order.tensors())
    assert vectors(module, encoder, frame).equal(encodings[[2, 0, 1]])
    assert frame.equals(unsorted())


def test_frames_of_the_estimator_keep_the_labels():  # H16
    frame = pd.DataFrame({"who": list("gghhii"), "when": [3, 1, 2, 9, 5, 7], "place": list("abcabc")})
    embedder = SequenceEmbedder(
        SequenceEncoder("who", "when"), d_model=16, num_layers=1, max_iter=1, random_state=0
    ).fit(frame, [0, 1, 0, 1, 1, 0])
    out = embedder.set_output(transform="pandas").transform(unsorted())
    assert out.index.tolist() == [7, 7, 2]
    in_order = embedder.transform(unsorted().sort_values("when"))
    assert_close(out.to_numpy(), in_order.to_numpy()[[2, 0, 1]], rtol=0, atol=1e-6)
    assert out.drop_duplicates().shape == (3, 16)
    assert frame["when"].tolist() == [3, 1, 2, 9, 5, 7]


# H18: time decay


def days_apart(unit):
    """The same instants, 14, 7, 3.5 and 0 days before the last, in a clock that counts units."""
    days = np.array([0, 7, 10.5, 14])
    if unit == "datetime":
        return pd.Timestamp("2024-03-01") + pd.to_timedelta(days, "D")
    if unit == "timedelta":
        return (pd.to_timedelta(days, "D") / pd.Timedelta("1h")).to_numpy()
    return days if unit == "D" else days * 86_400


UNITS = {"datetime": "s", "timedelta": "h", "D": "D", "s": "s"}


def four_rows(unit):
    return pd.DataFrame({"who": "a", "when": days_apart(unit), "place": list("wxyz")})


def weights_of(pooled, rows):
    """Which multiples of the rows give the pooled vector; the largest is 1."""
    weight = torch.linalg.lstsq(rows.double().T, pooled.double().unsqueeze(1)).solution[:, 0]
    return weight / weight.max()


def with_half_life(module, nanoseconds):
    """The same module, its pooling's half-life set."""
    with torch.no_grad():
        module.pooling.log_ratio += math.log(nanoseconds / float(module.pooling.half_life))
    return module


@pytest.mark.parametrize("unit", UNITS)
def test_pooling_halves_every_half_life(unit):  # H18
    frame = four_rows(unit)
    encoder = SequenceEncoder("who", "when", unit=UNITS[unit]).fit(frame)
    module = with_half_life(module_of(encoder, pooling="decay").double(), 7 * DAY)
    batch = encoder.transform(frame)
    assert batch.times.diff().tolist() == [7 * DAY, 7 * DAY // 2, 7 * DAY // 2]
    with torch.no_grad():
        pooled, rows = module(**batch.tensors())[0], module.rows(**batch.tensors())
    expected = [reference.decay(d, 7) for d in (14, 7, 3.5, 0)]
    assert expected == pytest.approx([0.25, 0.5, 0.5**0.5, 1])
    assert weights_of(pooled, rows).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("pooling", [None, "decay", "mean", "last"])
@SCHEMES
def test_the_future_weighs_nothing_and_every_gradient_is_finite(position, pooling):  # H18
    encoder = fitted()
    frame = events((4,))
    last = frame["when"].idxmax()
    far = with_cell(frame, last, when=frame["when"].max() + pd.Timedelta(1000, "D"))
    module = module_of(encoder, position, pooling=pooling)
    rows = torch.tensor([i for i in frame.index if i != last])
    out, moved = vectors(module, encoder, frame), vectors(module, encoder, far)
    assert_close(moved[rows], out[rows], rtol=0, atol=1e-6)
    padded = encoder.transform(pd.concat([far, events((9,)).assign(who="z")])).padded("left")
    times = torch.where(padded.mask, padded.times, padded.times + 1000 * DAY)  # behind the mask, the future
    for when in (padded.times, times):
        module.zero_grad()
        found = module(padded.rows, when, mask=padded.mask)
        assert found.isfinite().all()
        found.square().sum().backward()
        grads = [p.grad for p in module.parameters() if p.grad is not None]
        assert grads
        assert all(grad.isfinite().all() for grad in grads)
    assert_close(found, module(**padded.tensors()), rtol=0, atol=1e-6)


# H33: units of times


def two_instants(unit):
    when = pd.Series(pd.to_datetime(["2024-03-01 12:00:05", None, "2024-03-01 12:00:00"])).astype(
        f"datetime64[{unit}]"
    )
    return pd.DataFrame({"who": ["a", "a", "a"], "when": when, "place": ["x", "y", "z"]})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("unit_of_fit", ["s", "ms", "us", "ns"])
def test_units_of_times_do_not_matter(unit_of_fit, unit):  # H33
    encoder = SequenceEncoder("who", "when", on_missing="drop")
    with pytest.warns(UserWarning, match=r"column 'when'.*1"):
        encoder.fit(two_instants(unit_of_fit))
    with pytest.warns(UserWarning, match=r"column 'when'.*1"):
        batch = encoder.transform(two_instants(unit))
    assert batch.times.tolist() == [1_709_294_400 * 10**9, 1_709_294_405 * 10**9]
    assert batch.elapsed.tolist() == [0, 5]
    assert batch.gap[1:].tolist() == [5]
    assert batch.gap[0].isnan()
    assert batch.row.tolist() == [2, 0]
    assert encoder.schema_.span == 5
    module = module_of(encoder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = vectors(module, encoder, two_instants(unit))
        by_ns = vectors(module, encoder, two_instants("ns"))
    assert out[[0, 2]].equal(by_ns[[0, 2]])
    assert out[1].isnan().all()  # the marker of a row that is not here
    with pytest.raises(ValueError, match=r"column 'when'.*1"):
        SequenceEncoder("who", "when").fit(two_instants(unit))


# What a user's table may hold


def test_an_hour_that_happens_twice_is_two_hours():
    utc = pd.to_datetime(["2013-11-03 04:30", "2013-11-03 05:30", "2013-11-03 06:30"], utc=True)
    local = utc.tz_convert(NEW_YORK)
    assert [t.strftime("%H:%M") for t in local] == ["00:30", "01:30", "01:30"]
    frame = pd.DataFrame({"who": "a", "when": local, "place": ["x", "y", "z"]})
    encoder = SequenceEncoder("who", "when").fit(frame)
    batch = encoder.transform(frame)
    assert batch.gap[1:].tolist() == [3600, 3600]
    assert batch.elapsed.tolist() == [0, 3600, 7200]
    assert batch.times.tolist() == utc.as_unit("ns").astype("int64").tolist()
    module = module_of(encoder)
    assert vectors(module, encoder, frame).equal(vectors(module, encoder, frame.assign(when=utc)))


@SCHEMES
def test_the_order_of_the_input_moves_nothing(position):
    encoder = fitted()
    module, frame = module_of(encoder, position), events((6, 2, 8))
    assert frame["when"].is_unique
    out = vectors(module, encoder, frame)
    order = np.random.default_rng(1).permutation(len(frame))
    assert vectors(module, encoder, frame.iloc[order]).equal(out[order])


KEYS = {
    "int64": lambda n: pd.Series(n, dtype="int64"),
    "int32": lambda n: pd.Series(n, dtype="int32"),
    "Int64": lambda n: pd.Series(n, dtype="Int64"),
    "float64": lambda n: pd.Series(n, dtype="float64"),
    "int64[pyarrow]": lambda n: pd.Series(n, dtype="int64[pyarrow]"),
}
NAMES = {
    "str": lambda n: pd.Series([f"k{i:03}" for i in n]),
    "object": lambda n: pd.Series([f"k{i:03}" for i in n], dtype=object),
    "string": lambda n: pd.Series([f"k{i:03}" for i in n], dtype="string"),
    "category": lambda n: pd.Series([f"k{i:03}" for i in n]).astype("category"),
    "unordered": lambda n: pd.Series(
        pd.Categorical([f"k{i:03}" for i in n], categories=["k002", "k001", "k000", "unused"])
    ),
}


def numbered():
    frame = events((3, 4, 2))
    return frame, frame["who"].str[1:].astype(int)


@pytest.mark.parametrize("kinds", [KEYS, NAMES], ids=["numbers", "names"])
def test_keys_of_every_dtype_are_the_same_entities(kinds):
    frame, numbers = numbered()
    encoder = fitted(frame.assign(who=next(iter(kinds.values()))(numbers)))
    module = module_of(encoder)
    expected = vectors(module, encoder, frame.assign(who=next(iter(kinds.values()))(numbers)))
    assert expected.isfinite().all()
    for make in kinds.values():
        given = frame.assign(who=make(numbers))
        batch = encoder.transform(given)
        assert batch.lengths.tolist() == [3, 4, 2]
        assert [str(e).removesuffix(".0")[-1] for e in batch.entities] == ["0", "1", "2"]
        assert vectors(module, encoder, given).equal(expected)
        assert vectors(module, fitted(given), given).equal(expected)


MISSING_KEYS = {
    "Int64": lambda n: pd.Series(n, dtype="Int64").mask(n == 1),
    "float64": lambda n: pd.Series(n, dtype="float64").mask(n == 1),
    "object": lambda n: pd.Series([f"k{i}" if i != 1 else None for i in n], dtype=object),
    "str": lambda n: pd.Series([f"k{i}" if i != 1 else None for i in n]),
    "category": lambda n: pd.Series([f"k{i}" if i != 1 else None for i in n]).astype("category"),
}


@pytest.mark.parametrize("dtype", MISSING_KEYS)
def test_rows_without_a_key_are_counted_and_left_out(dtype):
    frame, numbers = numbered()
    given = frame.assign(who=MISSING_KEYS[dtype](numbers))
    with pytest.raises(ValueError, match=r"column 'who'.*4"):
        an_encoder().fit(given)
    with pytest.warns(UserWarning, match=r"column 'who'.*4"):
        encoder = an_encoder(on_missing="drop").fit(given)
    with pytest.warns(UserWarning, match=r"column 'who'.*4"):
        batch = encoder.transform(given)
    assert batch.lengths.tolist() == [3, 2]
    assert (batch.n_rows, batch.n_input) == (5, 9)
    gone = given["who"].isna().to_numpy()
    assert gone.sum() == 4
    module = module_of(encoder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = vectors(module, encoder, given)
    assert out.isnan().all(1).tolist() == gone.tolist()
    assert_close(out[~gone], vectors(module, encoder, given[~gone]), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "Int64"])
def test_times_with_gaps_are_counted_and_left_out(dtype):
    frame = events((3, 4))
    frame["when"] = pd.Series(np.arange(7) * 10, dtype=dtype)
    frame.loc[[1, 5], "when"] = pd.NA if dtype[0] in "FI" else np.nan
    with pytest.raises(ValueError, match=r"column 'when'.*2"):
        an_encoder().fit(frame)
    with pytest.warns(UserWarning, match=r"column 'when'.*2"):
        encoder = an_encoder(on_missing="drop").fit(frame)
    with pytest.warns(UserWarning, match=r"column 'when'.*2"):
        batch = encoder.transform(frame)
    assert sorted(batch.row.tolist()) == [0, 2, 3, 4, 6]
    assert (batch.times == batch.row * 10 * reference.SECOND).all()


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_libraries_give_the_same_vectors(library):
    frame = events((5, 6, 1))
    frame["when"] = frame["when"].dt.tz_localize("UTC").dt.tz_convert(NEW_YORK)
    other = {"polars": polars.from_pandas, "pyarrow": pyarrow.Table.from_pandas}[library](frame)
    encoder = fitted(frame)
    module, expected = module_of(encoder), encoder.transform(frame)
    for made in (encoder, fitted(other)):
        batch = made.transform(other)
        for name, tensor in expected.tensors()["rows"].items():
            assert batch.tensors()["rows"][name].equal(tensor)
        for name in ("times", "elapsed", "row", "cu_seqlens"):
            assert getattr(batch, name).equal(getattr(expected, name))
        assert batch.entities.tolist() == expected.entities.tolist()
        assert made.schema_ == encoder.schema_
        assert vectors(module, made, other).equal(vectors(module, encoder, frame))


def test_an_index_with_doubles_and_the_frame_stay_as_they_are():
    frame = events((5, 6)).set_index(pd.Index([4, 4, 4, 0, 0, 9, 9, 9, 9, 1, 1], name="label"))
    before = frame.copy(deep=True)
    encoder = fitted(frame)
    module = module_of(encoder)
    out = vectors(module, encoder, frame)
    assert out.isfinite().all()
    assert out.equal(vectors(module, encoder, frame.reset_index(drop=True)))
    pd.testing.assert_frame_equal(frame, before)


@BOTH_CLOCKS
@SCHEMES
def test_no_rows_give_no_vectors(position, clock):
    encoder = fitted()
    batch = encoder.transform(events()[:0])
    assert (len(batch), batch.n_rows, batch.n_input) == (0, 0, 0)
    assert batch.cu_seqlens.tolist() == [0]
    module = module_of(encoder, position, clock)
    assert module(**batch.tensors()).shape == (0, 32)
    assert module_of(encoder, position, clock, pooling="mean")(**batch.tensors()).shape == (0, 32)


@SCHEMES
def test_unknown_entities_are_normal(position):
    encoder = fitted()
    module, frame = module_of(encoder, position), events((3, 6))
    out = vectors(module, encoder, frame)
    renamed = frame.assign(who=frame["who"].map({"e000": "never seen", "e001": "nor this"}))
    assert_close(vectors(module, encoder, renamed), out, rtol=0, atol=1e-6)


# Nothing from later, nothing from elsewhere


@pytest.mark.parametrize("ties", ["stable", "strict"])
@BOTH_CLOCKS
@SCHEMES
def test_the_future_moves_nothing(position, clock, ties):
    if position == "gru" and ties == "strict":
        return  # refused: a recurrence cannot keep rows apart
    frame = events((6, 1, 9))
    frame["when"] = frame["when"].dt.floor("3D")  # ties
    assert frame.duplicated(["who", "when"]).any()
    encoder = fitted(frame, ties=ties)
    module = module_of(encoder, position, clock, num_layers=1).double()

    def transform(table):
        return vectors(module, encoder, table).numpy()

    observed = ["late", "how"]
    check_no_leak(transform, frame, entity="who", time="when", observed=observed, n_instants=2, atol=1e-12)


@BOTH_CLOCKS
@SCHEMES
def test_own_observed_cells_move_later_rows_alone(position, clock):
    encoder, frame = fitted(), events((5, 3))
    module, places = module_of(encoder, position, clock), by_time(frame, "e000")
    out = vectors(module, encoder, frame)
    for i, row in enumerate(places):
        other = {"badly": "well", "well": "badly"}[frame.loc[row, "how"]]
        moved = vectors(module, encoder, with_cell(frame, row, late=99.0, how=other))
        same, later = places[: i + 1], places[i + 1 :]
        assert moved[same].equal(out[same])
        assert moved[by_time(frame, "e001")].equal(out[by_time(frame, "e001")])
        if len(later):
            change = (moved[later] - out[later]).abs().amax(1)
            assert change[0] > 1e-4
            assert (change > 0).all() or position == "learned"


def test_a_row_of_the_same_instant_is_not_even_counted_when_strict():
    frame = events((6,))
    frame["when"] = pd.Timestamp("2024-03-01") + pd.to_timedelta([0, 1, 1, 1, 2, 2], "D")
    encoder = fitted(frame, ties="strict")
    for position in ("rotary", "alibi", "decay", "sinusoidal", "learned", None):
        module = module_of(encoder, position).double()
        out, fewer = vectors(module, encoder, frame), vectors(module, encoder, frame.drop(index=2))
        assert_close(fewer[[0, 1, 2]], out[[0, 1, 3]], rtol=0, atol=1e-12)
        assert (fewer[3:] - out[4:]).abs().amax(1).min() > 1e-6


def test_rows_of_one_instant_do_not_see_each_other_when_strict():
    frame = events((6,))
    frame["when"] = pd.Timestamp("2024-03-01") + pd.to_timedelta([0, 1, 1, 1, 2, 2], "D")
    strict, stable = fitted(frame, ties="strict"), fitted(frame)
    assert strict.schema_.strict
    assert not stable.schema_.strict
    changed = with_cell(frame, 1, place="Oslo" if frame["place"][1] != "Oslo" else "Rome", late=9.0)
    for encoder, moves in ((strict, [1, 4, 5]), (stable, [1, 2, 3, 4, 5])):
        module = module_of(encoder)
        change = vectors(module, encoder, changed) - vectors(module, encoder, frame)
        assert change.abs().amax(1).nonzero()[:, 0].tolist() == moves


def test_merged_rows_are_one_row():
    frame = pd.DataFrame(
        {
            "who": ["a", "a", "a", "b"],
            "when": [20, 10, 20, 20],
            "place": ["Rome", "Oslo", None, "Bonn"],
            "size": [1.0, 2.0, 3.0, 4.0],
        }
    )
    by_hand = frame.iloc[[1, 2, 3]].assign(place=["Oslo", "Rome", "Bonn"])
    settings = {"columns": TableEncoder(scaler=None), "ties": "merge"}
    encoder = SequenceEncoder("who", "when", **settings).fit(by_hand)
    batch = encoder.transform(frame)
    assert batch.row.tolist() == [1, 2, 3]
    assert batch.merged.tolist() == [[0, 2]]
    assert batch.rows.values[:, 0].tolist() == [2, 3, 4]
    out = vectors(module_of(encoder), encoder, frame)
    assert out[0].equal(out[2])
    assert out[[1, 2, 3]].equal(vectors(module_of(encoder), encoder, by_hand))


@pytest.mark.parametrize("position", ["rotary", "alibi", "decay", "sinusoidal", "learned", None, "gru"])
def test_a_shift_of_every_time_moves_nothing(position):
    encoder = fitted()
    module, frame = module_of(encoder, position), events((7, 2))
    later = frame.assign(when=frame["when"] + pd.Timedelta(10**9, "s"))
    assert_close(vectors(module, encoder, later), vectors(module, encoder, frame), rtol=0, atol=1e-5)


def test_the_cutoff_gives_what_was_known_then():
    encoder, frame = fitted(), events((6, 4))
    frame["when"] = frame["when"].dt.floor("2D")
    module = module_of(encoder)
    for cutoff in frame["when"].unique():
        batch = encoder.transform(frame, cutoff=cutoff)
        known = frame[frame["when"] <= cutoff]
        at = known["when"] == cutoff
        known = known.assign(late=known["late"].mask(at), how=known["how"].mask(at))
        expected = encoder.transform(known)
        assert batch.times.equal(expected.times)
        for name, tensor in expected.tensors()["rows"].items():
            assert batch.tensors()["rows"][name].equal(tensor)
        with torch.no_grad():
            assert module(**batch.tensors()).equal(module(**expected.tensors()))


# Against the loops


def all_of_type(module, kind):
    return [part for part in module.modules() if type(part).__name__ == kind]


def of_type(module, kind):
    (part,) = all_of_type(module, kind)
    return part


def as_lists(*tensors):
    return tuple(t.detach().double().tolist() for t in tensors)


def linear_of(layer, part=slice(None)):
    return as_lists(layer.weight[part], layer.bias[part])


def scale_of(schema, clock):
    """The shortest gap that matters, the median and the longest time, in the unit of the positions."""
    if clock == "index":
        return 1.0, 1.0, schema.longest - 1.0
    return schema.gaps[1] * 1e9, schema.gaps[50] * 1e9, schema.span * 1e9


def scheme_of(module, position, clock, n_heads, width):
    shortest, median, longest = scale_of(module.schema, clock)
    match position:
        case "rotary":
            return {"frequencies": reference.frequencies_from_periods(2 * shortest, 3 * longest, width // 2)}
        case "alibi":
            return {"slopes": reference.alibi_slopes(n_heads), "unit": median}
        case "decay":
            n, fastest = width // 2, 4 * median
            slowest = max(fastest, longest)
            return {"half_lives": [fastest * (slowest / fastest) ** (i / (n - 1)) for i in range(n)] * 2}
    return {}


def placed(module, tokens, positions, position, clock):
    """Tokens with what a scheme adds to them; positions count from the first row."""
    shortest, _, longest = scale_of(module.schema, clock)
    if position == "sinusoidal":
        d = len(tokens[0])
        ladder = reference.frequencies_from_periods(2 * shortest, 3 * longest, d // 2)
        return [
            reference.add(x, reference.sinusoidal(p, d, frequencies=ladder))
            for x, p in zip(tokens, positions, strict=True)
        ]
    if position == "learned":
        (table,) = as_lists(of_type(module, "LearnedOffsets").table.weight)
        last, ratio = len(table) - 1, longest / shortest
        if clock == "time":
            share = [math.log(max(p, shortest) / shortest) / math.log(ratio) for p in positions]
            positions = [
                0 if p < shortest else min(last, 1 + math.floor(s * (last - 1)))
                for p, s in zip(positions, share, strict=True)
            ]
        return [
            reference.learned_position(x, min(p, last), table) for x, p in zip(tokens, positions, strict=True)
        ]
    return tokens


def columns_of(half, schema, batch):
    """The tensors of some of a table's columns."""
    ids = [i for i, c in enumerate(schema.categorical) if c in half.columns]
    values = [i for i, c in enumerate(schema.continuous) if c in half.columns]
    return {
        "ids": batch.ids[:, ids],
        "values": batch.values[:, values].double(),
        "missing": batch.missing[:, values],
    }


def gap_features(schema, times, i, strict):
    """What the time before a row tells."""
    before = reference.carried_rows(times, i, strict)
    gap = (times[i] - times[before[-1]]) / 1e9 if before else None
    return reference.gap_features(gap, schema.gaps, schema.span)


def places_of(times, clock, strict):
    """Where rows stand: times, or numbers of rows, or of instants where rows of one are kept apart."""
    if clock == "time":
        return times
    return [sorted(set(times)).index(t) for t in times] if strict else list(range(len(times)))


def rows_by_loops(module, encoder, frame, position, clock, strict):
    """Vectors of a frame's rows, one entity after the other, by scalar loops alone."""
    schema, out = encoder.schema_, [None] * len(frame)
    table = encoder.table_encoder_.transform(frame)
    tokens = of_type(module, "RowTokens")
    known = module.known(**columns_of(schema.known, schema.rows, table)).tolist()
    after = module.after(**columns_of(schema.after, schema.rows, table)).tolist()
    first = tokens.parts["carried"].first.tolist()
    d = module.output_dim
    n_heads = max(1, d // 16)
    nanoseconds = frame["when"].dt.as_unit("ns").astype("int64").tolist()
    for found in reference.sequences(frame["who"].tolist(), nanoseconds, {}):
        places, times = found["row"], found["times"]
        rows = []
        for i, place in enumerate(places):
            observed = reference.carried([after[p] for p in places], times, i, first, strict)
            gap = gap_features(schema, times, i, strict) if clock == "time" else []
            rows.append(reference.affine([*known[place], *observed, *gap], *linear_of(tokens.linear)))
        positions = places_of(times, clock, strict)
        if position == "gru":
            for layer in all_of_type(module, "GRULayer"):
                weights = as_lists(layer.weight_input, layer.weight_state, layer.bias_input, layer.bias_state)
                state, states = [0.0] * d, []
                for x in rows:
                    state = reference.gru_step(x, state, *weights)
                    states.append(state)
                rows = states
        else:
            since = [p - positions[0] for p in positions]
            rows = placed(module, rows, since, position, clock)
            scheme = scheme_of(module, position, clock, n_heads, d // n_heads)
            for block in all_of_type(module, "TransformerBlock"):
                weights = {
                    "norm1": linear_of(block.before_attention),
                    "norm2": linear_of(block.before_hidden),
                    "out": linear_of(block.out),
                    "up": linear_of(block.hidden),
                    "down": linear_of(block.back),
                }
                for k, name in enumerate(("query", "key", "value")):
                    weights[name] = linear_of(block.qkv, slice(k * d, (k + 1) * d))
                rows = block_by_loops(rows, times, positions, weights, n_heads, scheme, strict)
            norm = linear_of(of_type(module, "Transformer").norm)
            rows = [reference.layer_norm(x, *norm) for x in rows]
        for place, row in zip(places, rows, strict=True):
            out[place] = row
    return torch.tensor(out, dtype=torch.float64)


def block_by_loops(rows, times, positions, weights, n_heads, scheme, strict):
    seen = [reference.seen_rows(times, i, strict) for i in range(len(times))]
    return reference.block(rows, positions, weights, n_heads, scheme, seen)


@pytest.mark.parametrize("strict", [False, True])
@BOTH_CLOCKS
@SCHEMES
def test_vectors_are_those_of_the_loops(position, clock, strict):
    if position == "gru" and strict:
        return
    frame = events((6, 1, 4))
    frame["when"] = frame["when"].dt.floor("2D")
    encoder = fitted(frame, ties="strict" if strict else "stable")
    module = module_of(encoder, position, clock).double()
    with torch.no_grad():
        expected = rows_by_loops(module, encoder, frame, position, clock, strict)
    out = vectors(module, encoder, frame)
    assert_close(out, expected, rtol=0, atol=1e-9)
    for pooling in ("last", "mean", "decay"):
        whole = module_of(encoder, position, clock, pooling=pooling).double()
        batch = encoder.transform(frame)
        with torch.no_grad():
            pooled = whole(**batch.tensors())
        for i, part in enumerate(pooled):
            one = batch[torch.tensor([i])]
            places = places_of(one.times.tolist(), clock, strict)
            _, median, longest = scale_of(encoder.schema_, clock)
            loop = reference.pooled(expected[one.row].tolist(), places, pooling, math.sqrt(median * longest))
            assert_close(part, torch.tensor(loop, dtype=torch.float64), rtol=0, atol=1e-9)
