"""The columns of a schema as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabembed.schema import MISSING, CategoricalColumn, ContinuousColumn, ListColumn

if TYPE_CHECKING:
    from rich.table import Table

    from tabembed.schema import TableSchema


def column_table(schema: TableSchema, widths: Mapping[str, int] | None = None) -> Table:
    """Name, kind, cardinality, missing share and, where a network was trained, width of every column.

    Args:
        schema: what the encoder knows.
        widths: width of every column's vector, by name.
    """
    from rich.table import Table

    table = Table()
    table.add_column("column")
    table.add_column("kind")
    for heading in ("known values", "missing", *(["width"] if widths is not None else [])):
        table.add_column(heading, justify="right")
    for column in schema.columns:
        width = [] if widths is None else [str(widths.get(column.name, "-"))]
        table.add_row(column.name, *_cells(column, schema.n_rows), *width)
    return table


def _cells(column: Any, n_rows: int) -> tuple[str, str, str]:
    if isinstance(column, ListColumn):
        return "list", f"{column.n_known:,}", "-"
    if isinstance(column, CategoricalColumn):
        return "categorical", f"{column.n_known:,}", _share(column.counts[MISSING], n_rows)
    kind = "continuous" if isinstance(column, ContinuousColumn) else "datetime"
    return kind, "-", _share(column.n_missing, n_rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f}%"
