"""What a fitted encoder made of a table, and how another table differs from it, as frames to read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

from tabembed.schema import MISSING, UNKNOWN, CategoricalColumn
from tabembed.table.drift import Cells, cells_of, distances, type_in_fit
from tabembed.table.encoder import TableEncoder, side_by_side
from tabembed.table.frame import Frame, read_frame
from tabembed.table.in_html import html_table, shown_cells
from tabembed.table.parquet import open_dataset, record_batches

if TYPE_CHECKING:
    import pandas as pd

_WORDS = ("column", "kind", "type", "type_fit")
_NUMBERS = (
    "missing",
    "missing_fit",
    "unseen",
    "unseen_fit",
    "out_of_range",
    "distance",
    "by_chance",
    "shift",
)


def describe(encoder: TableEncoder) -> pd.DataFrame:
    """One row a column: kind, known values, and the shares that are missing and rare.

    Args:
        encoder: a fitted encoder.

    >>> import pandas as pd
    >>> from tabembed import TableEncoder
    >>> describe(TableEncoder().fit(pd.DataFrame({"city": ["Oslo", "Rome", None, "Rome"]})))
      column         kind  n_known  missing  rare
    0   city  categorical        2     0.25   0.0
    """
    import pandas as pd

    rows = []
    for column in encoder.schema_.columns:
        kind = encoder.kinds_[column.name]
        shares = _fitted_shares(column)
        known = column.n_known if isinstance(column, CategoricalColumn) else None
        rows.append(
            {
                "column": column.name,
                "kind": kind,
                "n_known": known,
                "missing": shares["missing"],
                "rare": shares.get("unseen"),
            }
        )
    frame = pd.DataFrame(rows, columns=["column", "kind", "n_known", "missing", "rare"])
    return frame.astype({"n_known": "Int64", "missing": float, "rare": float})


@dataclass(frozen=True)
class DriftReport:
    """How a table differs from the one of a fit; a notebook shows it as a table.

    ``frame`` has one row a column:

    - ``column``, ``kind``; ``type`` and ``type_fit``: what the values are and were, in words.
    - ``missing`` and ``missing_fit``: share of the cells.
    - ``unseen``: share that ``transform`` reads as unknown. ``unseen_fit``: share of the fit's own that
      was too rare to be known.
    - ``out_of_range``: share of numbers and times outside the range of the fit.
    - ``distance``: of categories, missing and unknown being two of them, the total variation, ½ Σ |pᵢ − qᵢ|;
      of numbers, missing ones left out, the Kolmogorov–Smirnov distance, max |F − G|, exact for up to 1001
      distinct numbers in the fit, else to about 0.001. Both lie between 0 and 1. Of times the fit keeps
      their range alone, so there is none.
    - ``by_chance``: the distance to expect of so many rows when nothing has changed. The distance of two
      samples is never 0: look at those of several times ``by_chance``. Values of lists come together and rows
      may, so theirs is larger than it says; that of numbers that repeat is smaller.
    - ``shift``: of numbers, the 1-Wasserstein distance ∫ |F − G| after scaling, in scales of the column.
    - ``note``: what ``transform`` would refuse or pass over; empty where there is nothing.

    Shares are of all cells, and in a column of lists of all values, a missing cell being one.

    Args:
        frame: the numbers.
        n_rows: number of rows of the table.
        n_rows_fit: number of rows of the fit.
    """

    frame: pd.DataFrame
    n_rows: int
    n_rows_fit: int

    def __str__(self) -> str:
        return f"{self.title}\n{self.shown.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return f"<p>{self.title}</p>{html_table(self.shown, most=None)}"

    @property
    def title(self) -> str:
        """How many rows were compared, in words."""
        return f"{self.n_rows:,} rows beside the {self.n_rows_fit:,} of the fit"

    @property
    def shown(self) -> pd.DataFrame:
        """The frame as text, what belongs together in one cell, without columns that say nothing.

        Types are left out: where one has changed, the note says so.
        """
        import pandas as pd

        cells = shown_cells(self.frame.rename(columns=lambda name: name.replace("_", " ")))
        pairs = {"missing": "missing fit", "unseen": "unseen fit", "distance": "by chance"}
        shown = {}
        for name in cells.columns.difference(["type", "type fit", *pairs.values()], sort=False):
            other = pairs.get(name)
            text = cells[name] if other is None else cells[name] + " (" + cells[other] + ")"
            text = text.replace("- (-)", "-")
            if name == "column" or not text.isin(["-", ""]).all():
                shown[name if other is None else f"{name} ({other.split()[-1]})"] = text
        return pd.DataFrame(shown)


def report(encoder: TableEncoder, X: Any, owner: Any = None) -> DriftReport:
    """Lay a table beside that of a fit.

    Args:
        encoder: a fitted encoder.
        X: a table; or the path of a parquet file or a folder of them, or a ``pyarrow.dataset.Dataset``, which
            is read batch by batch.
        owner: the fitted encoder whose tables these are, where that is another one.

    >>> from tabembed import TableEncoder
    >>> found = report(TableEncoder().fit({"city": ["Oslo", "Rome"], "km": [1, 2]}), {"km": [2, 9]})
    >>> print(found.frame[["column", "out_of_range", "note"]].to_string(index=False))
    column  out_of_range                       note
      city           NaN absent: transform needs it
        km           0.5
    """
    n_rows, found, more, owner = 0, dict[str, Cells](), list[str](), owner or encoder
    for frame in _frames(owner, X, encoder.columns_):
        place, beyond = _places(owner, frame, encoder.columns_)
        there = [name for name in encoder.columns_ if name in place]

        def count(name: str, frame: Frame = frame, place: dict[str, int] = place) -> Cells:
            return _cells(encoder.columns_[name], frame, place[name])

        for name, cells in zip(there, side_by_side(count, there, frame.n_rows), strict=True):
            found[name] = found[name].merge(cells) if name in found else cells
        more += [name for name in beyond if name not in more]
        n_rows += frame.n_rows
    rows = [_row(column, found.get(name)) for name, column in encoder.columns_.items()]
    rows += [{"column": name, "note": "not in the fit: passed over"} for name in more]
    return DriftReport(_to_frame(rows), n_rows, encoder.schema_.n_rows)


def _frames(owner: Any, X: Any, needed: Collection[str]) -> Iterator[Frame]:
    """The table, or its parts; the first has the names of all columns."""
    if not isinstance(X, str | os.PathLike | ds.Dataset):
        yield read_frame(X)
        return
    dataset = open_dataset(X)
    yield read_frame(dataset.schema.empty_table())
    names = [name for name in dataset.schema.names if name in needed]
    by_place = not owner._named and len(names) < len(needed)
    for batch in record_batches(dataset, None if by_place else names or None):  # of no column are no rows
        yield read_frame(batch)


def _places(owner: Any, frame: Frame, needed: Collection[str]) -> tuple[dict[str, int], list[str]]:
    """Place of every column as ``transform`` finds it, and the names of those that the fit did not have."""
    fitted = list(owner.feature_names_in_)
    if frame.named and (owner._named or set(frame.names).issuperset(needed)):
        return {name: i for i, name in enumerate(frame.names)}, sorted(set(frame.names) - set(fitted))
    return dict(zip(fitted, range(len(frame.names)), strict=False)), list(frame.names[len(fitted) :])


def _cells(column: Any, frame: Frame, place: int) -> Cells:
    try:
        array = frame.column(place)
    except (TypeError, ValueError) as error:  # a mix of types, which no Arrow array holds
        refused = str(error).removeprefix(f"column {frame.names[place]!r}: ")
        return Cells("a mix", frame.n_rows, nan, refused=refused)
    return cells_of(column, array)


def _row(column: Any, cells: Cells | None) -> dict[str, Any]:
    """What is to be said of one column."""
    schema = column.column
    row = {"column": schema.name, "kind": column.kind, "type_fit": type_in_fit(column)}
    row |= {f"{name}_fit": share for name, share in _fitted_shares(schema).items()}
    if cells is None:
        return row | {"note": "absent: transform needs it"}
    total, note = max(cells.n_cells, 1), f"refused: {cells.refused}" if cells.refused else ""
    row |= {"type": cells.type, "missing": cells.n_missing / total, "note": note}
    if cells.counts is not None and schema.n_values:
        outside = cells.counts[[0, -1]].sum()
        row |= {"unseen": cells.counts[UNKNOWN] / total} if column.lane in ("ids", "lists") else {}
        row |= {"out_of_range": outside / total} if column.lane in ("values", "times") else {}
    return row | distances(column, cells)


def _fitted_shares(schema: Any) -> dict[str, float]:
    if isinstance(schema, CategoricalColumn):
        total = max(sum(schema.counts), 1)
        return {"missing": schema.counts[MISSING] / total, "unseen": schema.counts[UNKNOWN] / total}
    return {"missing": schema.n_missing / max(schema.n_missing + schema.n_values, 1)}


def _to_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    empty = {**dict.fromkeys(_WORDS, ""), **dict.fromkeys(_NUMBERS, nan), "note": ""}
    return pd.DataFrame([empty | row for row in rows], columns=list(empty))
