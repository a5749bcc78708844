"""The columns of a fitted encoder as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from tabembed import TableEncoder


def column_table(encoder: TableEncoder, widths: Mapping[str, int] | None = None) -> Table:
    """Name, kind, cardinality, missing share and, where a network was trained, width of every column.

    Args:
        encoder: a fitted encoder.
        widths: width of every column's vector, by name.
    """
    from rich.table import Table

    from tabembed.table import describe

    table = Table()
    table.add_column("column")
    table.add_column("kind")
    for heading in ("known values", "missing", *(["width"] if widths is not None else [])):
        table.add_column(heading, justify="right")
    for name, kind, known, missing, _ in describe(encoder).itertuples(index=False):
        cells = ["-" if kind in ("continuous", "datetime") else f"{known:,}", f"{missing:.1%}"]
        cells += [] if widths is None else [str(widths.get(name, "-"))]
        table.add_row(name, kind, *cells)
    return table
