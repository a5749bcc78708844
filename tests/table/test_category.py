"""Categories become ids: 0 padding, 1 missing, 2 unknown, 3… by falling count, ties by value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tabembed import Categorical, TableEncoder
from tabembed.schema import MISSING, PADDING, UNKNOWN

LOW, HIGH = -(2**63), 2**63 - 1
BIG = 2**53


def fit(values, spec=None, **settings):
    return TableEncoder(columns={"x": spec or Categorical()}, **settings).fit({"x": values})


def ids(encoder, values):
    return encoder.transform({"x": values}).ids[:, 0].tolist()


def test_ids_go_by_falling_count_then_by_value():
    encoder = fit(["b", "c", "a", "c", None, "d", "c", "b", "d"])
    # c three times; b and d twice, b first; a once
    assert ids(encoder, ["c", "b", "d", "a", None, "e"]) == [3, 4, 5, 6, MISSING, UNKNOWN]
    assert encoder.schema_["x"].counts == (0, 1, 0, 3, 2, 2, 1)
    assert encoder.categories_["x"].tolist() == ["c", "b", "d", "a"]
    assert encoder.categories_["x"].dtype == object


def test_ties_between_numbers_go_by_number_not_by_text():
    assert ids(fit([10, 9, -1]), [-1, 9, 10]) == [3, 4, 5]


def test_ties_between_texts_go_by_code_point():
    assert ids(fit(["é", "z", "Z", ""]), ["", "Z", "z", "é"]) == [3, 4, 5, 6]


def test_no_value_ever_gets_the_padding_id():
    encoder = fit(["a", None, "b"])
    assert PADDING not in ids(encoder, ["a", "b", None, "zz", ""])


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
def test_unseen_key_between_known_keys_is_unknown(repeat):  # H01
    encoder = fit(np.array([1, 2, 3, 5, 6]))
    assert ids(encoder, np.array([1, 2, 4, 7, 8] * repeat)) == [3, 4, 2, 2, 2] * repeat


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
def test_unseen_key_far_outside_is_unknown(repeat):
    encoder = fit(np.array([1, 2, 3, 5, 6]))
    assert ids(encoder, np.array([LOW, HIGH, 0, -1, 6] * repeat)) == [2, 2, 2, 2, 7] * repeat


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
@pytest.mark.parametrize("settings", [{}, {"min_frequency": 1}, {"max_categories": 2}])
@pytest.mark.parametrize("rows", [["x", "y"], ["x", "y", None]])
def test_missing_is_not_unknown(rows, settings, repeat):  # H02
    assert ids(fit(rows, **settings), [None, "z", "x"] * repeat) == [MISSING, UNKNOWN, 3] * repeat


@pytest.mark.parametrize(
    "values",
    [
        [1, "1", True, 1.0, False, 0],
        [1, "1"],
        ["a", 1.5],
        [True, 1],
        [True, 1.0, False],
        [None, "a", True],
        [np.nan, "a", 3],
        [pd.Timestamp("2024-01-01"), "a"],
    ],
    ids=str,
)
@pytest.mark.parametrize("spec", [Categorical(), None], ids=["told", "by dtype"])
def test_mixed_types_in_one_column_are_an_error(values, spec):  # H03 (i)
    frame = pd.DataFrame({"ok": range(len(values)), "mix": pd.Series(values, dtype=object)})
    with pytest.raises(TypeError, match=r"column 'mix': .*got"):
        TableEncoder(columns=None if spec is None else {"mix": spec}).fit(frame)


def test_mixed_types_at_transform_are_an_error():
    encoder = fit(["1", "a"])
    with pytest.raises(TypeError, match=r"column 'x': "):
        ids(encoder, pd.Series(["1", 1], dtype=object))


def test_booleans_keep_their_ids_when_the_dtype_changes():  # H03 (ii)
    encoder = TableEncoder().fit(pd.DataFrame({"x": pd.Series([True, False, None], dtype=object)}))
    assert encoder.kinds_ == {"x": "categorical"}
    assert encoder.transform(pd.DataFrame({"x": [True, True, False]})).ids[:, 0].tolist() == [4, 4, 3]
    nullable = pd.DataFrame({"x": pd.array([True, None, False], dtype="boolean")})
    assert encoder.transform(nullable).ids[:, 0].tolist() == [4, MISSING, 3]


def test_boolean_column_of_one_value_meets_the_other():  # H03 (iii)
    encoder = TableEncoder().fit(pd.DataFrame({"x": [False, False]}))
    assert encoder.transform(pd.DataFrame({"x": [True]})).ids.tolist() == [[UNKNOWN]]


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
def test_whole_numbers_that_became_floats(repeat):  # H04
    encoder = fit(np.array([1, 2, 3]))
    assert ids(encoder, np.array([1.0, np.nan, 3.0, 2.5] * repeat)) == [3, MISSING, 5, UNKNOWN] * repeat
    reverse = fit(np.array([1.0, np.nan, 3.0]))
    assert ids(reverse, np.array([1, 3, 2] * repeat)) == [3, 4, UNKNOWN] * repeat


def test_floats_with_a_fraction_are_categories_too():
    encoder = fit(np.array([2.5, 1.0, 2.5, -0.0, 0.0, 0.0]))
    assert ids(encoder, np.array([0.0, -0.0, 2.5, 1.0, 3.0])) == [3, 3, 4, 5, UNKNOWN]
    assert ids(encoder, np.array([0, 1, 3])) == [3, 5, UNKNOWN]


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
def test_zero_has_no_sign(repeat):
    encoder = fit(np.array([0.5, 0.0]))
    assert ids(encoder, np.array([-0.0, 0.0, 0.5] * repeat)) == [3, 3, 4] * repeat


def test_text_of_digits_never_meets_numbers():  # H04, last part
    with pytest.raises(TypeError, match=r"column 'x': .*got"):
        ids(fit(np.array([1, 2, 3])), ["1", "3"])


FAMILIES = {
    "text": ["a", "b"],
    "numbers": [1, 2],
    "floats": [0.5, 1.5],
    "booleans": [True, False],
    "times": np.array(["2024-01-01", "2024-01-02"], "datetime64[ns]"),
}


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
@pytest.mark.parametrize("seen", FAMILIES)
@pytest.mark.parametrize("given", FAMILIES)
def test_values_of_another_family_are_an_error(seen, given, repeat):
    encoder = fit(FAMILIES[seen])
    values = np.repeat(np.asarray(FAMILIES[given]), repeat)
    if seen == given:
        assert set(ids(encoder, values)) == {3, 4}
    elif {seen, given} == {"numbers", "floats"}:
        assert set(ids(encoder, values)) == {UNKNOWN}
    else:
        with pytest.raises(TypeError, match=r"column 'x': .*got"):
            ids(encoder, values)


@pytest.mark.parametrize("seen", FAMILIES)
@pytest.mark.parametrize(
    "gaps",
    [
        pd.Series([None, None], dtype=object),
        pd.Series([np.nan, np.nan]),
        pd.Series([pd.NaT, pd.NaT]),
        pd.array([None, None], dtype="Int64"),
        pd.array([None, None], dtype="boolean"),
        pd.array([None, None], dtype="string"),
        pa.nulls(2),
        pa.nulls(2, pa.float64()),
    ],
    ids=lambda gaps: str(getattr(gaps, "dtype", getattr(gaps, "type", gaps))),
)
def test_all_missing_column_of_any_dtype_is_fine(seen, gaps):
    assert ids(fit(FAMILIES[seen]), gaps) == [MISSING, MISSING]


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
def test_integers_beyond_float64_stay_apart(repeat):  # H05
    values = [BIG, BIG + 1, LOW, HIGH]
    encoder = fit(np.array(values))
    again = np.array([*values, BIG + 2] * repeat)
    expected = [4, 5, 3, 6, UNKNOWN]  # one row each: by value
    assert ids(encoder, again) == expected * repeat
    nullable = fit(pd.array([*values, None], dtype="Int64"))
    assert (
        ids(nullable, pd.array([*values, BIG + 2, None] * repeat, dtype="Int64"))
        == [*expected, MISSING] * repeat
    )
    assert [int(v) for v in nullable.categories_["x"]] == [LOW, BIG, BIG + 1, HIGH]


def test_decoding_returns_every_digit():  # H05
    for dtype, values in {
        "Int64": [BIG, BIG + 1, LOW, HIGH, None],
        "UInt64": [BIG, BIG + 1, 2**64 - 1, None],
    }.items():
        frame = pd.DataFrame({"x": pd.array(values, dtype=dtype)})
        encoder = TableEncoder(columns={"x": Categorical()}).fit(frame)
        back = encoder.inverse_transform(encoder.transform(frame))["x"]
        assert back.isna().tolist() == [v is None for v in values]
        assert [int(v) for v in back if not pd.isna(v)] == values[:-1]


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
def test_unsigned_integers_beyond_int64(repeat):  # H05
    top = 2**64 - 1
    encoder = fit(np.array([BIG, BIG + 1, top], dtype=np.uint64))
    values = np.array([BIG, BIG + 1, top, top - 1, 7] * repeat, dtype=np.uint64)
    assert ids(encoder, values) == [3, 4, 5, UNKNOWN, UNKNOWN] * repeat
    assert ids(encoder, np.array([BIG + 1, -1] * repeat)) == [4, UNKNOWN] * repeat  # −1 is not 2⁶⁴ − 1
    signed = fit(np.array([-1, 5]))
    assert ids(signed, np.array([top, 5] * repeat, dtype=np.uint64)) == [UNKNOWN, 4] * repeat


NARROW = {
    "pandas category, int8 codes": lambda: pd.DataFrame(
        {"x": pd.Categorical([f"v{i:03}" for i in range(126)])}
    ),
    "arrow dictionary, int8 indices": lambda: pa.table(
        {
            "x": pa.DictionaryArray.from_arrays(
                pa.array(range(128), pa.int8()), [f"v{i:03}" for i in range(128)]
            )
        }
    ),
    "polars Enum, uint8": lambda: pl.DataFrame(
        {"x": pl.Series([f"v{i:03}" for i in range(255)], dtype=pl.Enum([f"v{i:03}" for i in range(255)]))}
    ),
    "int8 values": lambda: pd.DataFrame({"x": np.arange(-128, 128).astype(np.int8)}),
    "uint8 values": lambda: pd.DataFrame({"x": np.arange(256).astype(np.uint8)}),
}


@pytest.mark.parametrize("make", NARROW.values(), ids=NARROW)
def test_codes_in_a_narrow_type_do_not_wrap(make):  # H06
    frame = make()
    n = len(frame)
    encoder = TableEncoder(columns={"x": Categorical()}).fit(frame)
    batch = encoder.transform(frame)
    assert batch.ids.dtype.is_signed
    assert batch.ids.element_size() == 8
    assert batch.ids[:, 0].tolist() == list(range(3, 3 + n))
    assert encoder.schema_["x"].n_ids == 3 + n


def test_text_that_looks_like_a_gap_is_text():
    encoder = fit(["nan", "None", "NA", "", "<NA>", None])
    assert ids(encoder, ["nan", "None", "NA", "", "<NA>", None]) == [7, 6, 5, 3, 4, MISSING]


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT, float("nan")], ids=repr)
def test_every_kind_of_gap_is_missing(gap):
    encoder = TableEncoder().fit(pd.DataFrame({"x": pd.Series(["a", gap], dtype=object)}))
    assert encoder.schema_["x"].counts == (0, 1, 0, 1)
    assert encoder.transform(pd.DataFrame({"x": pd.Series([gap, "a"], dtype=object)})).ids.tolist() == [
        [1],
        [3],
    ]


def test_digits_that_are_text_stay_text():  # H32, second part
    values = ["007", "7", "111111111111111111111111", "7"]
    encoder = TableEncoder().fit(pd.DataFrame({"x": values}))
    assert encoder.kinds_["x"] == "categorical"
    assert ids(encoder, [*values, "07"]) == [4, 3, 5, 3, UNKNOWN]


def test_physical_codes_of_polars_are_never_ids():  # H30; the fresh process stands in test_dtypes.py
    first = pl.DataFrame({"x": pl.Series(["a", "b", "c"], dtype=pl.Categorical)})
    second = pl.DataFrame({"x": pl.Series(["c", "d", "b"], dtype=pl.Categorical)})
    encoder = TableEncoder().fit(first)
    assert encoder.transform(second).ids[:, 0].tolist() == [5, UNKNOWN, 4]
    with pytest.raises(TypeError, match=r"column 'x': "):
        encoder.transform(pl.DataFrame({"x": [0, 1, 2]}))


def test_min_frequency_as_a_count_of_rows():
    encoder = fit(["a"] * 3 + ["b"] * 2 + ["c"], min_frequency=2)
    assert ids(encoder, ["a", "b", "c"]) == [3, 4, UNKNOWN]
    assert encoder.schema_["x"].counts == (0, 0, 1, 3, 2)


def test_min_frequency_as_a_share_counts_every_row():
    values = ["a"] * 6 + ["b"] * 2 + ["c"] + [None]  # b is 20% of ten rows, c is 10%
    assert ids(fit(values, min_frequency=0.2), ["a", "b", "c", None]) == [3, 4, UNKNOWN, MISSING]
    assert ids(fit(values, min_frequency=0.21), ["a", "b", "c", None]) == [3, UNKNOWN, UNKNOWN, MISSING]


def test_max_categories_is_the_most_known_values():
    encoder = fit(["a", "c", "c", "b"], max_categories=2)  # a and b tie for the second place
    assert ids(encoder, ["a", "b", "c"]) == [4, UNKNOWN, 3]
    assert encoder.schema_["x"].n_known == 2
    assert encoder.schema_["x"].counts == (0, 0, 1, 2, 1)


def test_both_limits_hold_together():
    values = ["a"] * 4 + ["b"] * 3 + ["c"] * 2 + ["d"]
    assert fit(values, min_frequency=2, max_categories=2).categories_["x"].tolist() == ["a", "b"]
    assert fit(values, min_frequency=4, max_categories=2).categories_["x"].tolist() == ["a"]


def test_a_column_overrides_the_encoder():
    values = ["a"] * 3 + ["b"] * 2 + ["c"]
    encoder = TableEncoder(
        columns={"y": Categorical(min_frequency=1), "z": Categorical(max_categories=1)}, min_frequency=2
    ).fit({"x": values, "y": values, "z": values})
    assert {name: v.tolist() for name, v in encoder.categories_.items()} == {
        "x": ["a", "b"],
        "y": ["a", "b", "c"],
        "z": ["a"],
    }


def test_no_value_frequent_enough_leaves_only_reserved_ids():
    encoder = fit(["a", "b", None], min_frequency=2)
    assert ids(encoder, ["a", "zz", None]) == [UNKNOWN, UNKNOWN, MISSING]
    assert encoder.schema_["x"].counts == (0, 1, 2)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"min_frequency": 0}, "min_frequency"),
        ({"min_frequency": -3}, "min_frequency"),
        ({"min_frequency": 0.0}, "min_frequency"),
        ({"min_frequency": 1.5}, "min_frequency"),
        ({"max_categories": 0}, "max_categories"),
    ],
    ids=str,
)
@pytest.mark.parametrize("where", ["spec", "encoder"])
def test_limits_out_of_range_are_an_error(settings, name, where):
    with pytest.raises(ValueError, match=rf"{name} must .*got"):
        fit(["a"], Categorical(**settings)) if where == "spec" else fit(["a"], **settings)


@pytest.mark.parametrize("settings", [{"min_frequency": "3"}, {"max_categories": 2.5}], ids=str)
def test_limits_of_another_kind_are_an_error(settings):
    with pytest.raises(TypeError, match=rf"{next(iter(settings))} must .*got"):
        fit(["a"], Categorical(**settings))


def test_ordered_categorical_gets_ids_by_count_and_keeps_its_order():  # H40, last part
    size = pd.Categorical(["high", "low", "mid", "low"], categories=["low", "mid", "high"], ordered=True)
    encoder = TableEncoder().fit(pd.DataFrame({"size": size}))
    text = TableEncoder().fit(pd.DataFrame({"size": ["high", "low", "mid", "low"]}))
    assert encoder.transform(pd.DataFrame({"size": size})).ids[:, 0].tolist() == [4, 3, 5, 3]
    assert encoder.categories_["size"].tolist() == text.categories_["size"].tolist() == ["low", "high", "mid"]
    assert encoder.schema_["size"].ordered == (3, 5, 4)  # low, mid, high
    assert text.schema_["size"].ordered is None


def test_declared_values_without_rows_are_no_known_values():
    size = pd.Categorical(["low"], categories=["low", "mid", "high"], ordered=True)
    encoder = TableEncoder().fit(pd.DataFrame({"size": size}))
    assert encoder.schema_["size"].n_known == 1
    assert encoder.schema_["size"].ordered == (3,)


def test_an_unordered_categorical_declares_no_order():
    encoder = TableEncoder().fit(pd.DataFrame({"x": pd.Categorical(["b", "a"], categories=["b", "a"])}))
    assert encoder.schema_["x"].ordered is None
    assert encoder.categories_["x"].tolist() == ["a", "b"]


def test_a_column_that_is_all_null_warns_and_meets_values_later():  # H09, the text column
    frame = pd.DataFrame({"note": pd.Series([None, None], dtype=object), "n": [1.0, 2.0]})
    with pytest.warns(UserWarning, match="column 'note'"):
        encoder = TableEncoder().fit(frame)
    assert encoder.kinds_ == {"note": "categorical", "n": "continuous"}
    assert ids(TableEncoder(columns={"x": Categorical()}).fit({"x": ["a"]}), ["a"]) == [3]
    batch = encoder.transform(pd.DataFrame({"note": ["k", None], "n": [1.0, 2.0]}))
    assert batch.ids[:, 0].tolist() == [UNKNOWN, MISSING]


@pytest.mark.parametrize("sample", ["text", "numbers", "floats", "booleans", "times"])
def test_an_id_does_not_depend_on_the_size_of_the_batch(sample):
    rng = np.random.default_rng(0)
    pool = {
        "text": np.array([f"k{i}" for i in range(300)], dtype=object),
        "numbers": np.arange(-150, 150) * 7,
        "floats": np.arange(300) * 0.5,
        "booleans": np.array([False, True]),
        "times": np.arange(300).astype("datetime64[D]").astype("datetime64[us]"),
    }[sample]
    encoder = fit(rng.choice(pool[: max(1, len(pool) * 2 // 3)], 1000))
    rows = rng.choice(pool, 500)
    whole = ids(encoder, rows)
    assert UNKNOWN in whole
    assert len(set(whole)) > 1 or sample == "booleans"
    assert [ids(encoder, rows[i : i + 1])[0] for i in range(60)] == whole[:60]
    assert ids(encoder, rows[:65]) == whole[:65]


@pytest.mark.parametrize("repeat", [1, 100], ids=["few rows", "many rows"])
def test_nan_among_the_values_of_a_dictionary_is_missing(repeat):
    values = pa.array([1.0, float("nan"), 1.0, 2.0]).dictionary_encode()
    encoder = fit(values)
    assert encoder.schema_["x"].counts == (0, 1, 0, 2, 1)
    again = pa.array([1.0, float("nan"), 1.0, 2.0] * repeat).dictionary_encode()
    assert ids(encoder, again) == [3, MISSING, 3, 4] * repeat


def test_the_family_is_known_without_a_known_value():
    encoder = fit(["a", "b"], min_frequency=2)
    with pytest.raises(TypeError, match=r"column 'x': .*got"):
        ids(encoder, [1, 2])


def test_limits_may_be_numbers_of_numpy():
    values = ["a", "a", "b", "c", "c"]
    assert fit(values, min_frequency=np.int64(2)).categories_["x"].tolist() == ["a", "c"]
    assert fit(values, min_frequency=np.float64(0.4)).categories_["x"].tolist() == ["a", "c"]
    assert fit(values, max_categories=np.int32(1)).categories_["x"].tolist() == ["a"]


def test_a_large_vocabulary_with_gaps_and_strangers():
    known = [f"v{i:06d}" for i in range(70_000)]
    encoder = TableEncoder().fit({"x": known})
    rows = [*known, "stranger", None] * 2
    ids = encoder.transform({"x": rows}).ids[:, 0].tolist()
    assert ids == [*range(3, 70_003), 2, 1] * 2
    assert encoder.transform({"x": rows[69_998:70_002]}).ids[:, 0].tolist() == [70_001, 70_002, 2, 1]
