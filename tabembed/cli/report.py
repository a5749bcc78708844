"""The columns of a fitted encoder as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

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


def show(path: Path) -> None:
    """Print what a model folder holds, or what the columns of a table file would be."""
    from rich.console import Console

    from tabembed import TableEncoder
    from tabembed.cli.frames import load_model, read_frame

    is_model = path.is_dir() or not path.suffix
    known: Any = load_model(path) if is_model else TableEncoder().fit(read_frame(path))
    encoder = getattr(known, "encoder_", known)
    kind = type(known).__name__ if is_model else "table"
    sequences = getattr(encoder, "entity", None) is not None
    rows = encoder.schema_.rows.n_rows if sequences else encoder.schema_.n_rows
    typer.echo(f"{path}: {kind}, {rows:,} rows")
    if sequences:
        typer.echo(sequence_text(encoder))
        encoder = encoder.table_encoder_
    if encoder is not None:
        Console().print(column_table(encoder, _widths(known)))


def show_drift(model: Path, path: Path) -> None:
    """Print how a table differs from the one that a model was fitted on.

    Args:
        model: folder of a fitted encoder or embedder.
        path: the table; a parquet file, or a folder of them, is read batch by batch.

    Raises: ValueError when the model was fitted on no table.
    """
    from tabembed.cli.files import check_suffix
    from tabembed.cli.frames import load_model, read_frame

    known = load_model(model)
    encoder = getattr(known, "encoder_", known)
    if not hasattr(encoder, "report"):
        raise ValueError(f"{model}: must hold a fitted encoder to compare with, got a {type(known).__name__}")
    by_batch = path.is_dir() or (check_suffix(path) == ".parquet" and path.is_file())
    report = encoder.report(path if by_batch else read_frame(path, text=text_columns(encoder)))
    typer.echo(f"{path}: {report}")


def text_columns(encoder: Any) -> list[str]:
    """Columns that were text in the fit: their digits are text in a CSV file, too.

    Args:
        encoder: a fitted encoder.
    """
    categories = encoder.categories_.items()
    text = [name for name, values in categories if all(isinstance(value, str) for value in values)]
    return text + ([encoder.entity] if getattr(encoder, "entity_family_", None) == "text" else [])


def sequence_text(encoder: Any) -> str:
    """Whose rows they are, when they happened, and what is known only afterwards, in two lines.

    Args:
        encoder: a fitted ``SequenceEncoder``.
    """
    schema = encoder.schema_
    observed = ", ".join(schema.observed) or "nothing"
    return (
        f"entity {encoder.entity}: {schema.n_sequences:,} of at most {schema.longest:,} rows; "
        f"time {encoder.time}\nknown only after its row: {observed}"
    )


def _widths(known: Any) -> Mapping[str, int] | None:
    """Width of every column's vector in an embedder, ``None`` where nothing was trained."""
    network = getattr(known, "network_", None)
    if network is None:
        return None
    if hasattr(network, "column_widths"):
        return network.column_widths()
    halves = (network.embedding.known, network.embedding.after)
    return {name: dim for half in halves if half is not None for name, dim in half.embedding_dims().items()}
