"""One value has one id, whatever dtype, library or process it comes from."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from table.dtype_columns import COLUMNS, UNSEEN, VALUES, frame, ids

from tabembed import Categorical, TableEncoder

HERE = Path(__file__).parent
CASES = [(lib, family, dtype) for lib, make in COLUMNS.items() for family in VALUES for dtype in make(family)]


def run(*command, seed="0"):
    paths = [str(HERE.parents[1]), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": seed,
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tables():
    return {
        (lib, f, d): frame(lib, column)
        for lib, make in COLUMNS.items()
        for f in VALUES
        for d, column in make(f).items()
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model"
    TableEncoder().fit(pl.DataFrame({"x": pl.Series(["a", "b", "c"], dtype=pl.Categorical)})).save(path)
    return json.loads(run(str(HERE / "encode_without_pandas.py"), str(path)))


def test_the_matrix_is_wide():
    dtypes = {lib: {(family, dtype) for own, family, dtype in CASES if own == lib} for lib in COLUMNS}
    assert all(len(found) >= 12 for found in dtypes.values())


@pytest.mark.parametrize(("library", "family", "dtype"), CASES)
def test_ids_do_not_depend_on_the_dtype(library, family, dtype, tables):
    encoder = TableEncoder(columns={"x": Categorical()}).fit(tables[library, family, dtype])
    wrong = {}
    for other_library, other_family, other in CASES:
        if other_family == family:
            found = encoder.transform(tables[other_library, family, other]).ids[:, 0].tolist()
            if found != ids(family, other):
                wrong[other_library, other] = found
    assert wrong == {}


@pytest.mark.parametrize(("library", "family", "dtype"), CASES)
def test_counts_do_not_depend_on_the_dtype(library, family, dtype, tables):
    encoder = TableEncoder(columns={"x": Categorical()}).fit(tables[library, family, dtype])
    expected = ids(family, dtype)
    assert encoder.schema_["x"].counts == tuple(expected.count(i) for i in range(max(expected) + 1))
    assert encoder.schema_["x"].n_ids == max(expected) + 1


@pytest.mark.parametrize("repeat", [1, 40], ids=["few rows", "many rows"])
@pytest.mark.parametrize(("library", "family", "dtype"), CASES)
def test_long_columns_and_unseen_values(library, family, dtype, repeat, tables):
    if family == "booleans":
        known = pd.DataFrame({"x": [True, True]})
        expected = [{4: 2}.get(i, i) for i in ids(family, dtype)]
    else:
        known = pd.DataFrame({"x": [VALUES[family][0], UNSEEN[family]]})
        expected = [{4: 3, 1: 1}.get(i, 2) for i in ids(family, dtype)]  # only the first value is known
    encoder = TableEncoder(columns={"x": Categorical()}).fit(known)
    table = tables[library, family, dtype]
    if repeat > 1:
        import pyarrow as pa

        concat = {"pandas": pd.concat, "polars": pl.concat, "pyarrow": pa.concat_tables}[library]
        table = concat([table] * repeat)
    assert encoder.transform(table).ids[:, 0].tolist() == expected * repeat


@pytest.mark.parametrize(("library", "family", "dtype"), [case for case in CASES if case[0] != "pandas"])
def test_ids_without_pandas(library, family, dtype, answers):
    expected = ids(family, dtype)
    assert answers["answers"][f"{library}/{family}/{dtype}"] == [expected, expected]


def test_pandas_was_really_out_of_reach(answers):
    assert answers["pandas"] is False
    with pytest.raises(AssertionError, match="No module named 'pandas'"):
        run(
            "-c",
            "import sys, encode_without_pandas as e; sys.meta_path.insert(0, e.NoPandas()); import pandas",
        )


@pytest.mark.parametrize("dtype", COLUMNS["pandas"]("text"))
def test_every_text_dtype_is_categorical_without_a_word(dtype, tables):  # H32
    encoder = TableEncoder().fit(tables["pandas", "text", dtype])
    assert encoder.kinds_ == {"x": "categorical"}
    assert encoder.transform(tables["pandas", "text", dtype]).ids[:, 0].tolist() == ids("text", dtype)


FIT_A_THOUSAND = """
import random
from tabembed import TableEncoder
values = sorted({f"value {i * 7919 % 1000}" for i in range(1000)})
values += values[::3] + values[::7]
random.Random(SHUFFLE).shuffle(values)
print(TableEncoder().fit({"x": values}).categories_["x"].tolist())
"""


def test_one_vocabulary_in_every_process_and_row_order():  # H40
    answers = {run("-c", FIT_A_THOUSAND.replace("SHUFFLE", s), seed=h) for s, h in [("1", "1"), ("5", "77")]}
    assert len(answers) == 1
    found = ast.literal_eval(answers.pop())
    values = sorted({f"value {i}" for i in range(1000)})
    counted = values + values[::3] + values[::7]
    assert found == sorted(values, key=lambda v: (-counted.count(v), v))


def test_polars_codes_of_a_fresh_process(answers):  # H30
    assert answers["fresh polars categories"] == [5, 2, 4]
