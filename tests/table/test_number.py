"""Numbers become finite float32 values and a missing flag, by the column's own statistics only."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tabembed import Categorical, Continuous, TableEncoder

SCALERS = ["squash", "standard", "quantile", None]


def fit(values, scaler="standard"):
    return TableEncoder(scaler=scaler).fit({"x": np.asarray(values)})


def encode(encoder, values):
    batch = encoder.transform({"x": np.asarray(values)})
    return batch.values[:, 0].tolist(), batch.missing[:, 0].tolist()


def test_one_gap_does_not_poison_the_statistics():  # H08 (i)
    encoder = fit([1, 2, np.nan, 3])
    column = encoder.schema_["x"]
    assert (column.mean, column.n_values, column.n_missing) == (2.0, 3, 1)
    assert column.std == pytest.approx(0.816497, abs=1e-6)
    values, missing = encode(encoder, [1, 2, np.nan, 3])
    assert values == pytest.approx([-1.224745, 0, 0, 1.224745], abs=1e-6)
    assert missing == [False, False, True, False]


def test_the_schema_tells_the_statistics_of_the_finite_values():
    x = np.random.default_rng(0).lognormal(size=1001)
    column = fit(np.concatenate([x, [np.nan, np.inf, -np.inf]]), "squash").schema_["x"]
    low, high = np.quantile(x, [0.25, 0.75])
    assert (column.n_values, column.n_missing) == (1001, 1)
    assert (column.minimum, column.maximum) == (x.min(), x.max())
    assert column.mean == pytest.approx(x.mean(), rel=1e-12)
    assert column.std == pytest.approx(x.std(), rel=1e-12)
    assert column.centre == pytest.approx(np.median(x), rel=1e-12)
    assert column.scale == pytest.approx(high - low, rel=1e-12)
    levels = np.linspace(0, 1, len(column.quantiles))
    assert column.quantiles == pytest.approx(np.quantile(x, levels), rel=1e-12)
    assert len(column.quantiles) > 10


def test_statistics_are_float64():
    x = 1e9 + np.arange(1000)  # float32 sees 64 as one step here
    encoder = fit(x)
    assert encoder.schema_["x"].std == pytest.approx(np.arange(1000).std(), rel=1e-9)
    values, _ = encode(encoder, x[:3])
    assert np.diff(values) == pytest.approx([1 / np.arange(1000).std()] * 2, rel=1e-3)


def test_squash_is_the_stated_formula():
    x = np.array([0.0, 1, 2, 3, 4, 5, 100])
    encoder = fit(x, "squash")
    low, high = np.quantile(x, [0.25, 0.75])
    z = (np.array([-1e6, 0.0, 3, 4, 100, 1e9]) - 3) / (high - low)
    values, _ = encode(encoder, [-1e6, 0.0, 3, 4, 100, 1e9])
    assert values == pytest.approx(z / np.sqrt(1 + (z / 3) ** 2), rel=1e-6)
    assert max(map(abs, values)) <= 3


def test_squash_is_the_default():
    x = [0.0, 1, 2, 3, 40]
    default = TableEncoder().fit({"x": np.array(x)})
    assert default.scaler == "squash"
    assert encode(default, x) == encode(fit(x, "squash"), x)
    assert encode(default, x) != encode(fit(x, "standard"), x)


def test_squash_of_a_zero_inflated_column():
    encoder = fit([0] * 90 + list(range(1, 11)), "squash")  # the IQR is 0, half the range is 5
    assert encoder.schema_["x"].scale == 5.0
    values, _ = encode(encoder, [0, 5, 10])
    assert values == pytest.approx([0, 1 / np.sqrt(1 + 1 / 9), 2 / np.sqrt(1 + 4 / 9)], rel=1e-6)


def test_constant_column_whose_computed_spread_is_not_zero():  # H10
    encoder = fit(np.full(1000, 14.62))
    values, _ = encode(encoder, np.full(1000, 14.62))
    assert max(map(abs, values)) < 1e-6
    values, _ = encode(encoder, [14.62, 15.62])
    assert values == pytest.approx([0.0, 1.0], abs=1e-6)


def test_constant_column_under_squash():  # H10
    values, _ = encode(fit(np.full(1000, 14.62), "squash"), [14.62, 15.62])
    assert values == pytest.approx([0.0, 1 / np.sqrt(1 + 1 / 9)], abs=1e-6)


def test_a_nearly_constant_column_keeps_its_small_spread():
    x = 1.0 + np.array([0, 1e-6, 2e-6])
    values, _ = encode(fit(x), x)
    assert values == pytest.approx([-1.224745, 0, 1.224745], abs=1e-4)


@pytest.mark.parametrize("scaler", SCALERS)
def test_infinity_takes_the_fitted_extreme(scaler):
    encoder = fit([1.0, 2, 3, 10], scaler)
    values, missing = encode(encoder, [np.inf, -np.inf, 10, 1])
    assert values[0] == values[2]
    assert values[1] == values[3]
    assert values[0] > values[1]
    assert missing == [False] * 4


@pytest.mark.parametrize("scaler", SCALERS)
def test_infinity_in_the_fit_moves_no_statistic(scaler):
    x = [1.0, 2, 3, 10]
    with_infinity, without = fit([*x, np.inf, -np.inf], scaler), fit(x, scaler)
    assert encode(with_infinity, x) == encode(without, x)
    assert with_infinity.schema_["x"].maximum == 10


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize(
    "column",
    [
        [5.0],
        [5.0, np.nan],
        [0.0] * 50 + [7.0],
        [1e300, -1e300, 0.0],
        [1e-320, 0.0],
        [np.inf, 1.0, np.nan],
        [2.0] * 9,
    ],
    ids=str,
)
def test_output_is_finite_whatever_comes(scaler, column):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        encoder = fit(column, scaler)
        batch = encoder.transform({"x": np.array([*column, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324])})
    assert batch.values.dtype == torch.float32
    assert batch.missing.dtype == torch.bool
    assert bool(batch.values.isfinite().all())
    assert batch.missing[:, 0].tolist() == [bool(np.isnan(v)) for v in column] + [True] + [False] * 5


@pytest.mark.parametrize("scaler", ["squash", "standard", "quantile"])
def test_missing_is_zero_and_flagged(scaler):
    values, missing = encode(fit([10.0, 20, 30, 90], scaler), [np.nan, 90.0])
    assert values[0] == 0.0
    assert values[1] > 0.1
    assert missing == [True, False]


@pytest.mark.parametrize("scaler", ["squash", "standard", "quantile"])
def test_the_centre_of_the_column_is_zero(scaler):
    values, _ = encode(fit(np.arange(101.0), scaler), [50.0, 49.0, 51.0])
    assert values[0] == pytest.approx(0, abs=1e-3)
    assert values[1] < values[0] < values[2]


@pytest.mark.parametrize("scaler", SCALERS)
def test_order_is_kept(scaler):
    x = np.sort(np.random.default_rng(1).normal(size=500))
    values, _ = encode(fit(x, scaler), np.linspace(x[0], x[-1], 200))
    assert np.all(np.diff(values) >= 0)
    assert len(set(values)) > 150


def test_quantile_scaling_forgets_the_shape():
    x = np.random.default_rng(2).normal(size=2001)
    plain, _ = encode(fit(x, "quantile"), x)
    stretched, _ = encode(fit(np.exp(3 * x), "quantile"), np.exp(3 * x))
    assert stretched == pytest.approx(plain, abs=0.1)  # the tails are interpolated


def test_gap_at_encode_time_takes_its_own_column():  # H11
    train = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [10, np.nan, 30, np.nan]})
    new = pd.DataFrame({"a": [np.nan, 2.0], "b": [10.0, 20.0]})
    for scaler in SCALERS:
        encoder = TableEncoder(scaler=scaler).fit(train)
        assert encoder.transform(train).values.shape == (4, 2)
        batch = encoder.transform(new)
        assert batch.values.shape == batch.missing.shape == (2, 2)
        assert batch.missing.tolist() == [[True, False], [False, False]]
        if scaler is None:
            assert batch.values.tolist() == [[2.5, 10], [2, 20]]
            assert encoder.transform(train).values[:, 1].tolist() == [10, 20, 30, 20]
        else:
            assert batch.values[0, 0] == 0
            assert batch.values[1, 1] == pytest.approx(0, abs=1e-6)


def test_without_a_scaler_numbers_pass_through():
    values, missing = encode(fit([1.5, 2.5, 1e6], None), [0.25, -7.5, 3e9, np.nan])
    assert values == [0.25, -7.5, 3e9, 2.5]
    assert missing == [False, False, False, True]


def test_without_a_scaler_a_changed_integer_warns():
    exact, wide = np.array([2**24, 1]), np.array([2**24 + 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = TableEncoder(scaler=None).fit({"x": exact})
        encoder.transform({"x": exact})
    with pytest.warns(UserWarning, match="column 'x'"):
        encoder.transform({"x": wide})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder(scaler="standard").fit({"x": wide}).transform({"x": wide})


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_integers_do_not_wrap(dtype):
    top = np.iinfo(dtype)
    values, _ = encode(
        fit(np.array([top.min, top.max], dtype=dtype)), np.array([top.max, top.min], dtype=dtype)
    )
    assert values == pytest.approx([1, -1], abs=1e-6)


def test_column_without_any_finite_value():  # H09
    frame = pd.DataFrame(
        {
            "n": [np.nan] * 3,
            "t": pd.Series([None] * 3, dtype=object),
            "i": [np.inf, -np.inf, np.nan],
            "ok": [1.0, 2, 3],
        }
    )
    for scaler in SCALERS:
        with pytest.warns(UserWarning, match="column") as record:
            encoder = TableEncoder({"t": Categorical()}, scaler=scaler).fit(frame)
        text = " ".join(str(w.message) for w in record)
        assert "column 'n'" in text
        assert "column 'i'" in text
        assert "column 't'" in text
        assert "column 'ok'" not in text
        assert encoder.kinds_ == {
            "n": "continuous",
            "t": "categorical",
            "i": "continuous",
            "ok": "continuous",
        }
        batch = encoder.transform(
            pd.DataFrame({"n": [5.0, np.nan], "t": ["k", None], "i": [1.0, np.inf], "ok": [1.0, 3]})
        )
        assert batch.ids.tolist() == [[2], [1]]
        assert batch.values[:, :2].tolist() == [[0, 0], [0, 0]]
        assert batch.missing.tolist() == [[False, False, False], [True, False, False]]
        assert bool(batch.values.isfinite().all())


def test_null_and_nan_are_the_same_gap_in_every_library():  # H31
    tables = {
        "polars": pl.DataFrame({"x": [1.0, float("nan"), None, 3.0]}),
        "pandas": pd.DataFrame({"x": [1.0, np.nan, np.nan, 3.0]}),
        "pandas nullable": pd.DataFrame({"x": pd.array([1.0, None, None, 3.0], dtype="Float64")}),
        "pandas object": pd.DataFrame({"x": pd.Series([1.0, np.nan, None, 3.0], dtype=object)}),
        "pandas arrow": pd.DataFrame({"x": pd.array([1.0, None, None, 3.0], dtype="double[pyarrow]")}),
        "arrow": pa.table({"x": pa.array([1.0, float("nan"), None, 3.0])}),
    }
    for name, fitted in tables.items():
        encoder = TableEncoder(scaler="standard").fit(fitted)
        column = encoder.schema_["x"]
        assert (column.mean, column.std, column.n_missing) == (2, 1, 2), name
        for other, given in tables.items():
            batch = encoder.transform(given)
            assert batch.values[:, 0].tolist() == [-1, 0, 0, 1], (name, other)
            assert batch.missing[:, 0].tolist() == [False, True, True, False], (name, other)


def test_nan_inside_nullable_floats_is_a_gap():
    masked = pd.array([0.0, 1.0, 3.0], dtype="Float64")
    with np.errstate(invalid="ignore"):
        divided = masked / pd.array([0.0, 1.0, 1.0], dtype="Float64")  # 0/0 is NaN, not pd.NA
    batch = TableEncoder(scaler="standard").fit({"x": divided}).transform({"x": divided})
    assert batch.values[:, 0].tolist() == [0, -1, 1]
    assert batch.missing[:, 0].tolist() == [True, False, False]


@pytest.mark.parametrize(
    "given",
    [["1.5", "2"], [True, False], np.array(["2024-01-01"], "datetime64[ns]"), pd.Categorical(["1"])],
    ids=["text", "booleans", "times", "category"],
)
def test_values_that_are_no_numbers_are_an_error(given):
    encoder = fit([1.0, 2.0])
    with pytest.raises(TypeError, match=r"column 'x': .*got"):
        encoder.transform({"x": given})


def test_numeric_text_never_becomes_a_number():
    assert TableEncoder().fit({"x": ["1", "2"]}).kinds_ == {"x": "categorical"}
    with pytest.raises(TypeError, match=r"column 'x': .*got"):
        TableEncoder(columns={"x": Continuous()}).fit({"x": ["1", "2"]})


@pytest.mark.parametrize(
    "gaps",
    [pa.nulls(2), pa.nulls(2, pa.string()), pd.Series([None, None], dtype=object), pd.Series([pd.NaT] * 2)],
    ids=["nulls", "text", "object", "times"],
)
def test_all_missing_column_of_any_dtype_is_fine(gaps):
    batch = fit([1.0, 2.0]).transform({"x": gaps})
    assert batch.values.tolist() == [[0], [0]]
    assert batch.missing.tolist() == [[True], [True]]


def test_a_column_overrides_the_scaler():
    x = np.array([0.0, 1, 2, 3, 50])
    encoder = TableEncoder(columns={"b": Continuous(scaler="standard")}, scaler="squash").fit(
        {"a": x, "b": x}
    )
    batch = encoder.transform({"a": x, "b": x})
    assert batch.values[:, 0].tolist() == encode(fit(x, "squash"), x)[0]
    assert batch.values[:, 1].tolist() == encode(fit(x, "standard"), x)[0]


@pytest.mark.parametrize("where", ["spec", "encoder"])
def test_an_unknown_scaler_is_an_error(where):
    def by_spec():
        TableEncoder(columns={"x": Continuous(scaler="minmax")}).fit({"x": [1.0]})

    def by_encoder():
        fit([1.0], "minmax")

    with pytest.raises(ValueError, match=r"scaler must .*got 'minmax'"):
        {"spec": by_spec, "encoder": by_encoder}[where]()


def test_a_scaler_that_is_no_name_is_an_error():
    with pytest.raises(ValueError, match=r"scaler must .*got \['squash'\]"):
        fit([1.0], ["squash"])


def test_a_value_does_not_depend_on_the_rows_beside_it():
    x = np.random.default_rng(3).normal(size=300)
    for scaler in SCALERS:
        encoder = fit(x, scaler)
        whole, _ = encode(encoder, x)
        assert [encode(encoder, x[i : i + 1])[0][0] for i in range(20)] == whole[:20]


def test_the_unit_of_a_duration_changes_nothing():
    """Durations are taken in one unit, or refused; never by the raw integers of whatever unit came."""
    seconds = np.array([60, 120, 240], "timedelta64[s]")
    try:
        encoder = TableEncoder().fit({"x": seconds})
    except TypeError as error:
        assert "column 'x': " in str(error)  # noqa: PT017
        return
    for unit in ("ms", "us", "ns"):
        batch = encoder.transform({"x": seconds.astype(f"timedelta64[{unit}]")})
        assert batch.values.equal(encoder.transform({"x": seconds}).values), unit


def test_a_duration_beyond_nanoseconds_is_a_number_or_a_clear_error():
    far = np.array([10**11, 0], "timedelta64[s]")
    try:
        encoder = TableEncoder(scaler="standard").fit({"x": far})
    except (TypeError, ValueError) as error:
        assert "column 'x': " in str(error)  # noqa: PT017
        return
    assert encode(encoder, far)[0] == pytest.approx([1, -1])


def test_periods_are_not_read_as_their_ordinals():
    with pytest.raises(TypeError, match=r"column 'x': .*got"):
        TableEncoder().fit(pd.DataFrame({"x": pd.period_range("2024-01", periods=3, freq="M")}))


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2, 4], dtype=">i4"),
        np.array([1, 2, 4], dtype=">f8"),
        np.array([1, 2, 4], dtype=np.longdouble),
        pd.arrays.SparseArray([1.0, 2.0, 4.0]),
    ],
    ids=["big-endian int", "big-endian float", "long double", "sparse"],
)
def test_numbers_in_unusual_memory(values):
    plain = TableEncoder().fit({"x": [1.0, 2.0, 4.0]})
    for table in ({"x": values}, pd.DataFrame({"x": values})):
        assert TableEncoder().fit(table).schema_ == plain.schema_
        assert (
            plain.transform(table).values.tolist() == plain.transform({"x": [1.0, 2.0, 4.0]}).values.tolist()
        )


def test_a_type_that_arrow_lacks_is_an_error_of_its_column():
    import polars as pl

    table = pl.DataFrame({"x": [1, 2], "wide": pl.Series([1, 2], dtype=pl.Int128)})
    assert TableEncoder({"wide": "drop"}).fit(table).kinds_ == {"x": "continuous"}
    with pytest.raises(TypeError, match="column 'wide': "):
        TableEncoder().fit(table)
