"""The shell: ``tabembed fit``, ``transform``, ``describe`` and ``demo``.

Nothing heavy is imported until a command runs, so that ``tabembed --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabembed.cli.conduct import one_thread, plain_messages

if TYPE_CHECKING:
    import pandas

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Tables in, trained vectors out.")


class Output(StrEnum):
    """Which vectors to write."""

    columns = "columns"
    row = "row"
    both = "both"


class TargetType(StrEnum):
    """What the target is."""

    auto = "auto"
    continuous = "continuous"
    binary = "binary"
    multiclass = "multiclass"


TableFile = Annotated[Path, typer.Argument(help="A .csv, .parquet, .arrow or .feather file.")]


@app.command()
def fit(
    table: TableFile,
    target: Annotated[str, typer.Option(help="Column to predict.")],
    model: Annotated[
        Path, typer.Option("--model", "-o", help="Folder to save the model in; a model there is replaced.")
    ],
    vectors: Annotated[Path | None, typer.Option(help="File for the out-of-fold vectors.")] = None,
    output: Annotated[Output, typer.Option(help="Vectors per column, per row, or both.")] = Output.columns,
    target_type: Annotated[TargetType, typer.Option(help="What the target is.")] = TargetType.auto,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Column of names or codes, text in a CSV; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
) -> None:
    """Train an embedder on TABLE and save it.

    Rows without a target are left out of the training; in --vectors, which keeps TABLE's rows, they are null.
    """
    with plain_messages(), one_thread():
        from tabembed import Categorical, TableEmbedder, TableEncoder
        from tabembed.artifact import read_config
        from tabembed.cli.files import check_apart, check_output, check_parent

        check_parent(model)
        check_apart({"TABLE": table, "--model": model, "--vectors": vectors})
        if model.exists():
            read_config(model, classes=["TableEmbedder", "TableEncoder"])  # only a model may be replaced
        if vectors is not None:
            check_output(vectors)
        frame = _read_frame(
            table, needs=[target, *(drop or []), *(categorical or [])], text=categorical or []
        )
        known = frame[target].notna()
        if not known.any():
            raise ValueError(f"column {target!r}: must have a value in at least one row of {table}")
        if not known.all():
            typer.echo(f"dropped {(~known).sum():,} of {len(frame):,} rows, which have no {target!r}")
        X = frame.loc[known].drop(columns=[target, *(drop or [])])
        columns = {name: Categorical() for name in categorical or []}
        embedder = TableEmbedder(
            TableEncoder(columns or None),
            output=output.value,
            target_type=target_type.value,
            random_state=seed,
        )
        if vectors is None:
            embedder.fit(X, frame.loc[known, target])
        else:
            trained = embedder.set_output(transform="pandas").fit_transform(X, frame.loc[known, target])
        embedder.save(model)
        typer.echo(f"saved {model}")
        if vectors is not None:
            _write_frame(trained.set_axis(X.index).reindex(frame.index), vectors)


@app.command()
def transform(
    model: Annotated[Path, typer.Argument(help="Folder of a fitted embedder.")],
    table: TableFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the vectors.")],
    output: Annotated[Output | None, typer.Option(help="Vectors other than those chosen at the fit.")] = None,
) -> None:
    """Write the vectors of TABLE's rows, in their order."""
    with plain_messages():
        from tabembed.cli.files import check_apart, check_output

        check_output(out)
        check_apart({"TABLE": table, "MODEL": model, "--out": out})
        embedder = _load(model)
        if not hasattr(embedder, "transform") or not hasattr(embedder, "set_output"):
            raise ValueError(f"{model}: must hold a TableEmbedder, got a {type(embedder).__name__}")
        if output is not None:
            embedder.set_params(output=output.value)
        text = [
            name
            for name, values in embedder.encoder_.categories_.items()
            if all(isinstance(v, str) for v in values)
        ]
        frame = _read_frame(table, needs=list(embedder.feature_names_in_), text=text)
        vectors = embedder.set_output(transform="pandas").transform(frame[list(embedder.feature_names_in_)])
        _write_frame(vectors, out)


@app.command()
def describe(
    path: Annotated[Path, typer.Argument(help="Folder of a model, or a table.", metavar="MODEL|TABLE")],
) -> None:
    """Show the columns of a model, or those that a table would have."""
    with plain_messages():
        from rich.console import Console

        from tabembed import TableEncoder
        from tabembed.cli.report import column_table

        known = _load(path) if path.is_dir() or not path.suffix else TableEncoder().fit(_read_frame(path))
        encoder: Any = getattr(known, "encoder_", known)
        network = getattr(known, "network_", None)
        widths = None if network is None else network.column_widths()
        kind = type(known).__name__ if path.is_dir() else "table"
        typer.echo(f"{path}: {kind}, {encoder.schema_.n_rows:,} rows")
        Console().print(column_table(encoder, widths))


@app.command("demo")
def run_demo(
    folder: Annotated[Path, typer.Option(help="Folder for the model and the vectors.")] = Path("build/demo"),
) -> None:
    """Flights become tensors, vectors and a comparison with what people use today."""
    with plain_messages(), one_thread():
        from tabembed.cli.demo import run

        run(folder)


def _load(path: Path) -> Any:
    import tabembed

    if not path.is_dir():
        raise ValueError(f"{path}: no such folder")
    return tabembed.load(path)


def _read_frame(path: Path, needs: list[str] | None = None, text: Sequence[str] = ()) -> pandas.DataFrame:
    from tabembed.cli.files import read_table
    from tabembed.table.frame import to_pandas

    table = read_table(path, text)
    for name in needs or []:
        if name not in table.column_names:
            raise ValueError(f"column {name!r}: not in {path}, which has {table.column_names}")
    twice = {name for name in table.column_names if table.column_names.count(name) > 1}
    if twice:
        raise ValueError(f"column {min(twice)!r}: given twice in {path}")
    return to_pandas({name: table[name].combine_chunks() for name in table.column_names})


def _write_frame(frame: pandas.DataFrame, path: Path) -> None:
    import pyarrow

    from tabembed.cli.files import write_table

    write_table(pyarrow.Table.from_pandas(frame, preserve_index=False), path)
    typer.echo(f"wrote {len(frame):,} rows x {frame.shape[1]} columns to {path}")


def main() -> None:
    """Entry point of the console script."""
    app()
