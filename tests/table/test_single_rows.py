from __future__ import annotations

import pandas as pd
import pytest

from tabembed import Categorical, CategoricalList, TableEncoder
from tabembed.schema import UNKNOWN
from tabembed.table.single_rows import MANY, single_rows_unknown

N = MANY + 7
NAMES = [f"row {i:04d}" for i in range(N)]
TABLE = pd.DataFrame(
    {
        "id": [*NAMES, "often", "often", None],
        "few": [*["x"] * N, "y", "z", "z"],
        "tags": [*([name] for name in NAMES), ["often", "often"], ["often"], None],
        "km": range(N + 3),
    }
)
TEXT = f"column '{{}}': {N:,} of {N + 1:,} categories have one row each"


def test_a_name_of_one_row_is_unknown_where_nearly_all_are():
    fitted = TableEncoder().fit(TABLE)
    with pytest.warns(UserWarning, match=TEXT.format("id")) as said:  # and of tags
        cut = single_rows_unknown(fitted)
    assert len(said) == 2
    assert str(said[0].message).endswith("keep them with Categorical(min_frequency=1)")
    assert str(said[1].message).startswith(TEXT.format("tags"))
    assert str(said[1].message).endswith("keep them with CategoricalList(min_frequency=1)")
    asked = TableEncoder({"id": Categorical(min_frequency=2), "tags": CategoricalList(min_frequency=2)})
    asked.fit(TABLE)
    assert cut.schema_ == asked.schema_
    ours, theirs = cut.transform(TABLE), asked.transform(TABLE)
    assert ours.ids.equal(theirs.ids)
    assert ours.lists["tags"].ids.equal(theirs.lists["tags"].ids)
    assert (ours.ids[:N, 0] == UNKNOWN).all()
    assert len(fitted.categories_["id"]) == N + 1  # what was given stays as it is


def test_the_cut_encoder_is_saved_and_read(tmp_path):
    with pytest.warns(UserWarning, match="count as unknown"):
        cut = single_rows_unknown(TableEncoder().fit(TABLE))
    cut.save(tmp_path / "model")
    read = TableEncoder.load(tmp_path / "model")
    assert read.schema_ == cut.schema_
    assert read.transform(TABLE).ids.equal(cut.transform(TABLE).ids)


@pytest.mark.parametrize(
    "encoder",
    [
        TableEncoder(min_frequency=1),
        TableEncoder({"id": Categorical(min_frequency=1), "tags": CategoricalList(min_frequency=1)}),
        TableEncoder(["few", "km"]),
    ],
    ids=["of the encoder", "of the column", "no such column"],
)
def test_what_was_asked_for_is_left_as_it_is(encoder):
    fitted = encoder.fit(TABLE)
    assert single_rows_unknown(fitted) is fitted


def test_a_short_column_is_left_as_it_is():
    fitted = TableEncoder().fit(TABLE[: MANY - 1])
    assert single_rows_unknown(fitted) is fitted
