"""The shell: ``tabembed fit``, ``transform``, ``describe`` and ``demo``.

Nothing heavy is imported until a command runs, so that ``tabembed --help`` answers at once.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tabembed.cli.conduct import one_thread, plain_messages

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Tables in, trained vectors out.")


class Output(StrEnum):
    """Which vectors to write."""

    columns = "columns"
    row = "row"
    both = "both"
    entity = "entity"


class TargetType(StrEnum):
    """What the target is."""

    auto = "auto"
    continuous = "continuous"
    binary = "binary"
    multiclass = "multiclass"


class Position(StrEnum):
    """How a row of a sequence sees where the others stand."""

    rotary = "rotary"
    alibi = "alibi"
    decay = "decay"
    sinusoidal = "sinusoidal"
    learned = "learned"
    none = "none"
    gru = "gru"


Clock = StrEnum("Clock", ["time", "index"])


TableFile = Annotated[Path, typer.Argument(help="A .csv, .parquet, .arrow or .feather file.")]
TableWithPast = Annotated[
    Path,
    typer.Argument(
        help="A .csv, .parquet, .arrow or .feather file. For a model of sequences it must hold the past of "
        "its rows, too: history is what stands in TABLE."
    ),
]
Sequences = {"rich_help_panel": "Rows in time"}


@app.command()
def fit(
    table: TableFile,
    model: Annotated[
        Path, typer.Option("--model", "-o", help="Folder to save the model in; a model there is replaced.")
    ],
    target: Annotated[
        str | None,
        typer.Option(help="Column to predict. Without one: hidden cells; with --entity: the next row."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="File for the vectors of TABLE; with --target: out-of-fold.")
    ] = None,
    output: Annotated[
        Output | None,
        typer.Option(help="Vectors per column, per row, or both; with --entity: per row or per entity."),
    ] = None,
    target_type: Annotated[TargetType, typer.Option(help="What the target is.")] = TargetType.auto,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Column of names or codes, text in a CSV; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
    entity: Annotated[str | None, typer.Option(help="Column that says whose row it is.", **Sequences)] = None,
    time: Annotated[str | None, typer.Option(help="Column that says when it happened.", **Sequences)] = None,
    observed: Annotated[
        list[str] | None,
        typer.Option(help="Column that is known only after its row; may be repeated.", **Sequences),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="What a number in --time counts: ns, us, ms, s, m, h, D.", **Sequences),
    ] = None,
    position: Annotated[
        Position | None, typer.Option(help="How a row sees where others stand.", **Sequences)
    ] = None,
    clock: Annotated[Clock | None, typer.Option(help="Places are times, or numbers.", **Sequences)] = None,
) -> None:
    """Train an embedder on TABLE and save it.

    Rows without a target are left out of the training; in --vectors, which keeps TABLE's rows, they are null.
    With --entity and --time a row's vector holds the past of its entity, too: rows without a target stay as
    history of the rows after them; rows that lack entity or time are left out.
    """
    with plain_messages(), one_thread():
        import tabembed
        from tabembed.artifact import read_config
        from tabembed.cli.files import check_apart, check_output, check_parent
        from tabembed.cli.frames import read_frame, write_frame
        from tabembed.cli.training import Request, SequenceOptions

        chosen = [None if choice is None else choice.value for choice in (output, position, clock)]
        options = SequenceOptions(entity, time, tuple(observed or ()), unit, *chosen[1:])
        options.check(target)
        request = Request(
            table, target, chosen[0], target_type.value, drop or [], categorical or [], seed, options
        )
        check_parent(model)
        check_apart({"TABLE": table, "--model": model, "--vectors": vectors})
        if model.exists():
            read_config(model, classes=tabembed._SAVED)  # only a model may be replaced
        if vectors is not None:
            check_output(vectors)
        frame = read_frame(table, needs=request.columns, text=request.categorical)
        request.check_unit(frame)
        X, y = request.rows(frame)
        embedder = request.embedder()
        if vectors is None:
            embedder.fit(X, y)
        else:
            trained = embedder.set_output(transform="pandas").fit_transform(X, y)
        embedder.save(model)
        typer.echo(f"saved {model}")
        if vectors is not None:
            by_entity = output == Output.entity
            write_frame(trained if by_entity else trained.set_axis(X.index).reindex(frame.index), vectors)


@app.command()
def transform(
    model: Annotated[Path, typer.Argument(help="Folder of a fitted embedder.")],
    table: TableWithPast,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the vectors.")],
    output: Annotated[Output | None, typer.Option(help="Vectors other than those chosen at the fit.")] = None,
) -> None:
    """Write the vectors of TABLE's rows, in their order, or of its entities."""
    with plain_messages():
        from tabembed.cli.files import check_apart, check_output
        from tabembed.cli.frames import load_model, read_frame, write_frame
        from tabembed.cli.report import text_columns

        check_output(out)
        check_apart({"TABLE": table, "MODEL": model, "--out": out})
        embedder = load_model(model)
        if not hasattr(embedder, "transform") or not hasattr(embedder, "set_output"):
            raise ValueError(f"{model}: must hold an embedder, got a {type(embedder).__name__}")
        if output is not None:
            embedder.set_params(output=output.value)
        encoder, names = embedder.encoder_, list(embedder.feature_names_in_)
        frame = read_frame(table, needs=names, text=text_columns(encoder))
        write_frame(embedder.set_output(transform="pandas").transform(frame[names]), out)


@app.command()
def describe(
    path: Annotated[Path, typer.Argument(help="Folder of a model, or a table.", metavar="MODEL|TABLE")],
    against: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Table to lay beside the one of the fit.")
    ] = None,
) -> None:
    """Show the columns of a model, or those that a table would have; or how a table differs from a fit's."""
    with plain_messages():
        from tabembed.cli.report import show, show_drift

        show(path) if against is None else show_drift(path, against)


@app.command("demo")
def run_demo(
    folder: Annotated[Path, typer.Option(help="Folder for the model and the vectors.")] = Path("build/demo"),
) -> None:
    """Flights become tensors, vectors and a comparison with what people use today."""
    with plain_messages(), one_thread():
        from tabembed.cli.demo import run

        run(folder)


def main() -> None:
    """Entry point of the console script."""
    app()
