"""Vocabularies with so many values that no dict of them is made."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

import tabembed.table.vocabulary as room
from tabembed.artifact import ArtifactError
from tabembed.schema import FIRST_KNOWN, MISSING, UNKNOWN
from tabembed.table.hashes import hashes
from tabembed.table.vocabulary import Vocabulary

DAYS = [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=k * k) for k in range(90)]
KNOWN = {
    "text": (pa.array([f"k{i}" for i in range(90)] + [""], pa.large_string()), ["k90", "K1"]),
    "whole numbers": (pa.array([k * 10**9 for k in range(-40, 50)]), [7, -(2**63)]),
    "wide numbers": (pa.array([2**63 + k for k in range(90)], pa.uint64()), [1, 2**64 - 1]),
    "floats": (pa.array([k / 4 for k in range(-40, 50)]), [0.3, 1e300]),
    "times": (pa.array(DAYS, pa.timestamp("ns")), [datetime.datetime(1999, 1, 1)]),
}


@pytest.mark.parametrize("n_rows", [1, 5, 200])
@pytest.mark.parametrize("bits", [64, 2])
@pytest.mark.parametrize("case", KNOWN)
def test_values_are_found_by_their_hashes_without_a_dict(monkeypatch, case, bits, n_rows):
    known, unseen = KNOWN[case]
    mask = np.uint64(2**bits - 1)
    monkeypatch.setattr(room, "hashes", lambda values: hashes(values) & mask)
    monkeypatch.setattr(room, "_MANY_VALUES", 50)
    monkeypatch.setattr(room, "_MOST_IN_DICT", 50)
    monkeypatch.setattr(Vocabulary, "_index", property(lambda self: pytest.fail("a dict was made")))
    rng = np.random.default_rng(n_rows)
    rows = [*known.to_pylist(), *unseen, None]
    place = rng.integers(0, len(rows), n_rows)
    values = pa.array([rows[i] for i in place], known.type)
    ids = np.where(place < len(known), place + FIRST_KNOWN, UNKNOWN)
    ids[place == len(rows) - 1] = MISSING
    assert Vocabulary(known, "x").encode(values).tolist() == ids.tolist()
    assert Vocabulary(known, "x").encode(values.dictionary_encode()).tolist() == ids.tolist()


def test_numbers_of_other_types_are_found_among_many(monkeypatch):
    monkeypatch.setattr(room, "_MANY_VALUES", 5)
    monkeypatch.setattr(room, "_MOST_IN_DICT", 5)
    whole = Vocabulary(pa.array([k * 10**9 for k in range(9)]), "x")
    assert whole.encode(pa.array([2e9, 0.5, None, 8e9])).tolist() == [5, UNKNOWN, MISSING, 11]
    assert whole.encode(pa.array([0, 10**9], pa.uint64())).tolist() == [3, 4]
    assert whole.encode(pa.array(["3000000000", "0.5"]).cast(pa.decimal128(12, 1))).tolist() == [6, UNKNOWN]
    floats = Vocabulary(pa.array([k + 0.5 for k in range(8)] + [2.0]), "x")
    assert floats.encode(pa.array([2, 3])).tolist() == [11, UNKNOWN]
    assert floats.encode(pa.array([2.5, 2.0], pa.float32())).tolist() == [5, 11]


@pytest.mark.parametrize("case", KNOWN)
def test_a_part_of_an_array_is_saved_as_if_it_were_all(case):
    known = KNOWN[case][0]
    for begin, end in ((0, 90), (0, 7), (5, 31), (89, 90), (4, 4)):
        part = known.slice(begin, end - begin)
        kind, arrays = Vocabulary(part, "x").to_artifact()
        again = Vocabulary.from_artifact("x", kind, arrays).values
        assert again.type == known.type
        assert again.to_pylist() == known.to_pylist()[begin:end]
        whole = Vocabulary(pa.array(part.to_pylist(), known.type), "x").to_artifact()[1]
        assert {name: array.tolist() for name, array in arrays.items()} == {
            name: array.tolist() for name, array in whole.items()
        }


@pytest.mark.parametrize("bits", [64, 2])
@pytest.mark.parametrize("case", KNOWN)
def test_a_saved_value_stands_once(monkeypatch, case, bits):
    mask = np.uint64(2**bits - 1)
    monkeypatch.setattr("tabembed.table.hashes.hashes", lambda values: hashes(values) & mask)
    known = KNOWN[case][0]
    Vocabulary.from_artifact("x", *Vocabulary(known, "x").to_artifact())
    twice = pa.concat_arrays([known, known.slice(17, 1)])
    with pytest.raises(ArtifactError, match="column 'x': .*a value stands in it twice"):
        Vocabulary.from_artifact("x", *Vocabulary(twice, "x").to_artifact())


def test_no_saved_value_is_missing():
    with pytest.raises(ArtifactError, match="column 'x': .*a value is missing in it"):
        Vocabulary.from_artifact("x", "int64", {"values": np.array([1, None], object)})
