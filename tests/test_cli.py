"""The shell: every command, every mistake in one line, nothing half-written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet
from typer.testing import CliRunner

import tabembed
from tabembed.cli import app

HEAVY = ("torch", "pandas", "sklearn", "pyarrow", "numpy", "rich.table")
ROOT = Path(__file__).parents[1]


def make_table(n_rows: int = 240) -> pa.Table:
    generator = np.random.default_rng(0)
    city = generator.choice(["Athens", "Bern", "Cork", None], size=n_rows)
    price = generator.normal(size=n_rows)
    sold = (price + (city == "Bern") > 0).astype(float)
    sold[:7] = np.nan
    number = generator.integers(3, size=n_rows)
    columns = {"city": city, "shop": number, "price": price, "sold": sold}
    return pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)


def write(table: pa.Table, path: Path) -> Path:
    writer = {".csv": csv.write_csv, ".parquet": parquet.write_table, ".feather": feather.write_feather}
    writer[".arrow"] = feather.write_feather
    writer[path.suffix](table, path)
    return path


def call(*arguments: object) -> tuple[int, str]:
    """Exit code and everything printed, in one line."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, re.sub(r"\s+", " ", result.output)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a model fitted on it, and its out-of-fold vectors."""
    folder = tmp_path_factory.mktemp("cli")
    write(make_table(), folder / "shops.parquet")
    code, text = call(
        *(
            "fit",
            folder / "shops.parquet",
            "--target",
            "sold",
            "--categorical",
            "shop",
            "-o",
            folder / "model",
        ),
        *("--vectors", folder / "vectors.parquet", "--seed", 3),
    )
    assert code == 0, text
    assert "dropped 7 of 240 rows, which have no 'sold'" in text
    return folder


def test_fit_writes_out_of_fold_vectors_in_step_with_the_table(folder: Path) -> None:
    vectors = pd.read_parquet(folder / "vectors.parquet")
    table = pd.read_parquet(folder / "shops.parquet")
    assert len(vectors) == 240
    assert vectors[:7].isna().all(axis=None)
    assert vectors[7:].notna().all(axis=None)
    assert (vectors.dtypes == "float32").all()
    embedder = tabembed.load(folder / "model")
    assert list(vectors) == list(embedder.get_feature_names_out())
    in_sample = np.asarray(embedder.transform(table[8:].drop(columns="sold")))
    assert not np.allclose(vectors[8:].to_numpy(), in_sample)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".feather"])
def test_transform_gives_the_same_vectors_from_every_format(
    folder: Path, tmp_path: Path, suffix: str
) -> None:
    table = write(make_table().select(["price", "shop", "city"]).slice(0, 50), tmp_path / f"new{suffix}")
    code, text = call("transform", folder / "model", table, "-o", tmp_path / "out.parquet")
    assert code == 0, text
    rows = make_table().drop(["sold"]).slice(0, 50).to_pandas()
    expected = np.asarray(tabembed.load(folder / "model").transform(rows))
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet").to_numpy(), expected)


@pytest.mark.parametrize("suffix", [".csv", ".arrow", ".feather"])
def test_vectors_are_written_in_every_format(folder: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    code, text = call("transform", folder / "model", folder / "shops.parquet", "-o", out, "--output", "row")
    assert code == 0, text
    read = csv.read_csv if suffix == ".csv" else feather.read_table
    embedder = tabembed.load(folder / "model").set_params(output="row")
    assert read(out).column_names == list(embedder.get_feature_names_out())
    assert read(out).num_rows == 240


def test_arrow_streams_are_read(folder: Path, tmp_path: Path) -> None:
    table = make_table()
    with ipc.new_stream(tmp_path / "stream.arrow", table.schema) as stream:
        stream.write_table(table)
    assert call("describe", tmp_path / "stream.arrow")[0] == 0


def test_csv_types_come_from_every_row_and_empty_cells_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("code,name\n" + "1234567,a\n" * 200_000 + "x,\n")
    code, text = call("describe", path)
    assert code == 0, text
    assert re.search(r"code . categorical", text)
    assert re.search(r"name . categorical . 1 . 0\.0%", text)


def test_describe_a_table_a_model_and_an_encoder(folder: Path, tmp_path: Path) -> None:
    code, text = call("describe", folder / "shops.parquet")
    assert (code, "width" in text) == (0, False)
    assert re.search(r"city . categorical . 3 . \d+\.\d%", text)
    assert re.search(r"shop . continuous . - . 0\.0%", text)
    code, text = call("describe", folder / "model")
    assert code == 0, text
    assert "TableEmbedder" in text
    assert re.search(r"shop . categorical . 3 . 0\.0% . [12] ", text)
    tabembed.TableEncoder().fit(make_table()).save(tmp_path / "encoder")
    code, text = call("describe", tmp_path / "encoder")
    assert code == 0, text
    assert "TableEncoder" in text


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_describe_says_how_a_table_has_drifted(folder: Path, tmp_path: Path, suffix: str) -> None:
    city, price = ["Bern", "Nice", None, "Cork"], [0.0, 1e6, 0.1, 0.2]
    now = write(pa.table({"city": city, "price": price, "[red]": [1, 2, 3, 4]}), tmp_path / f"now{suffix}")
    code, text = call("describe", folder / "model", "--against", now)
    assert code == 0, text
    assert f"now{suffix}: 4 rows beside the 233 of the fit" in text
    monitor = tabembed.load(folder / "model").encoder_.report(pd.DataFrame({"city": city, "price": price}))
    assert f"{monitor.frame['distance'][0]:.3g}" in text
    assert "absent" in text
    assert "[red]" in text


def test_drift_is_of_what_was_fitted(folder: Path, tmp_path: Path) -> None:
    code, text = call("describe", folder / "shops.parquet", "--against", folder / "shops.parquet")
    assert code == 2
    assert "no such folder" in text
    code, text = call("describe", folder / "model", "--against", tmp_path / "none.csv")
    assert (code, "no such file" in text) == (2, True)


def broken_files(folder: Path) -> list[Path]:
    whole = {s: write(make_table(), folder / f"whole{s}").read_bytes() for s in (".parquet", ".arrow")}
    contents = {
        "half.parquet": whole[".parquet"][: len(whole[".parquet"]) // 2],
        "half.arrow": whole[".arrow"][: len(whole[".arrow"]) // 2],
        "text.parquet": b"city,price\nBern,1\n",
        "empty.parquet": b"",
        "empty.csv": b"",
        "empty.arrow": b"",
        "ragged.csv": b"a,b\n1,2\n3\n",
        "latin.csv": b"a,b\n" + b"1,\xff\xfe\n" * 3,
        "table.xlsx": b"PK",
        "twice.csv": b"a,a\n1,2\n",
        "header.csv": b"a,b\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    return [*(folder / name for name in contents), folder / "absent.csv", folder / "folder.csv"]


def test_every_unreadable_file_is_one_line_that_names_it(folder: Path, tmp_path: Path) -> None:
    for path in broken_files(tmp_path):
        for command in (
            ("fit", path, "--target", "a", "-o", tmp_path / "m"),
            ("transform", folder / "model", path, "-o", tmp_path / "o.parquet"),
        ):
            result = CliRunner().invoke(app, [str(part) for part in command])
            assert result.exit_code == 2, (path.name, result.output)
            assert result.stderr.startswith("error: "), path.name
            assert result.stderr.count("\n") == 1, result.stderr
            if path.name != "header.csv":
                assert path.name in result.stderr, result.stderr
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "o.parquet").exists()


def test_mistakes_in_arguments(folder: Path, tmp_path: Path) -> None:
    table, model = folder / "shops.parquet", tmp_path / "model"
    before = sorted(tmp_path.iterdir())
    fit = ("fit", table, "-o", model, "--target")
    mistakes = {
        "column 'price2': not in": (*fit, "price2"),
        "column 'size': not in": (*fit, "sold", "--drop", "size"),
        "column 'colour': not in": (*fit, "sold", "--categorical", "colour"),
        "must end in one of .csv": (*fit, "sold", "--vectors", tmp_path / "v.txt"),
        "must be in a folder that exists": (*fit, "sold", "--vectors", tmp_path / "nowhere" / "v.parquet"),
        "no such folder": ("transform", tmp_path / "absent", table, "-o", tmp_path / "o.parquet"),
        "no such file": ("describe", tmp_path / "absent.csv"),
        "must be a file, got a folder": ("transform", folder / "model", table, "-o", tmp_path / "d.parquet"),
        "config.json must be there": ("describe", folder),
        "config.json must be": ("fit", table, "-o", folder, "--target", "sold"),
    }
    (tmp_path / "d.parquet").mkdir()
    for text, command in mistakes.items():
        code, output = call(*command)
        assert code == 2, (command, output)
        assert text in output, (text, output)
        assert output.startswith("error: "), output
        assert "Traceback" not in output
    (tmp_path / "d.parquet").rmdir()
    assert sorted(tmp_path.iterdir()) == before


def test_a_target_without_any_value(tmp_path: Path) -> None:
    path = write(
        pa.table({"a": ["x", "y"], "t": pa.array([None, None], pa.float64())}), tmp_path / "t.parquet"
    )
    code, output = call("fit", path, "--target", "t", "-o", tmp_path / "model")
    assert code == 2
    assert "column 't': must have a value in at least one row" in output


def test_transform_needs_an_embedder_and_all_columns(folder: Path, tmp_path: Path) -> None:
    tabembed.TableEncoder().fit(make_table()).save(tmp_path / "encoder")
    out = tmp_path / "o.parquet"
    code, output = call("transform", tmp_path / "encoder", folder / "shops.parquet", "-o", out)
    assert code == 2
    assert "must hold an embedder, got a TableEncoder" in output
    short = write(make_table().drop(["city"]), tmp_path / "short.parquet")
    code, output = call("transform", folder / "model", short, "-o", out)
    assert code == 2
    assert "'city'" in output
    assert not out.exists()


def test_a_write_that_fails_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tabembed.cli import files

    def half(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("disk full")

    out = tmp_path / "out.parquet"
    out.write_bytes(b"old")
    monkeypatch.setitem(files._WRITERS, ".parquet", half)
    with pytest.raises(OSError, match="disk full"):
        files.write_table(make_table(), out)
    assert out.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [out]


def run_python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from tabembed.cli import main\n"
        "sys.argv[1:] = ['--help']\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "print('loaded', [m for m in sys.argv[2:] or {heavy} if m in sys.modules])\n"
    )
    text = run_python(code.format(heavy=HEAVY[:5]))
    assert "transform" in text
    assert "loaded []" in text
    assert "loaded ['numpy']" in run_python("import numpy\n" + code.format(heavy=HEAVY[:5]))


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    code, text = call("demo", "--folder", tmp_path / "demo")
    assert code == 0, text
    assert "gives the same vectors" in text
    aucs = [float(auc) for auc in re.findall(r"(0\.\d{3}) . 0\.\d{3} to", text)]
    assert len(aucs) == 6
    assert min(aucs) > 0.55
    gain = float(re.search(r"own history gains (\S+) of ROC AUC", text)[1])
    assert gain == pytest.approx(aucs[-1] - max(aucs[:-1]), abs=0.0011)
    assert gain > 0.02
    assert {"column", "category", "count", "kind", "e0"} <= set(
        pd.read_parquet(tmp_path / "demo/embeddings.parquet")
    )


def test_codes_keep_their_zeros_and_large_ids_their_digits(tmp_path):
    (tmp_path / "t.csv").write_text("zip,y\n" + "007,1.5\n7,2.5\n" * 30)
    fit = CliRunner().invoke(
        app,
        ["fit", str(tmp_path / "t.csv"), "--target", "y", "--categorical", "zip", "-o", str(tmp_path / "m")],
    )
    assert fit.exit_code == 0, fit.output
    assert sorted(tabembed.load(tmp_path / "m").encoder_.categories_["zip"]) == ["007", "7"]
    out = tmp_path / "v.parquet"
    (tmp_path / "new.csv").write_text("zip\n007\n7\n")
    assert (
        CliRunner()
        .invoke(app, ["transform", str(tmp_path / "m"), str(tmp_path / "new.csv"), "-o", str(out)])
        .exit_code
        == 0
    )
    ids = pa.table({"id": pa.array([2**53, 2**53 + 1, None] * 20), "y": [1.0, 2.0, 3.0] * 20})
    parquet.write_table(ids, tmp_path / "ids.parquet")
    fit = CliRunner().invoke(
        app,
        [
            "fit",
            str(tmp_path / "ids.parquet"),
            "--target",
            "y",
            "--categorical",
            "id",
            "-o",
            str(tmp_path / "n"),
        ],
    )
    assert fit.exit_code == 0, fit.output
    assert tabembed.load(tmp_path / "n").encoder_.categories_["id"].tolist() == [2**53, 2**53 + 1]


def test_one_path_in_two_roles_is_refused(tmp_path):
    source = tmp_path / "t.parquet"
    parquet.write_table(make_table(), source)
    before = source.read_bytes()
    both = str(tmp_path / "same.parquet")
    for options in (["-o", both, "--vectors", both], ["-o", str(tmp_path / "m"), "--vectors", str(source)]):
        done = CliRunner().invoke(app, ["fit", str(source), "--target", "sold", *options])
        assert done.exit_code == 2
        assert "must be another path than" in done.output
    assert source.read_bytes() == before
    assert os.listdir(tmp_path) == ["t.parquet"]


def make_events(n_rows: int = 150) -> pa.Table:
    generator = np.random.default_rng(0)
    cards = ["007", "7", "08", "11", "12", "13", "14", None]
    card = generator.choice(cards, size=n_rows, p=[0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    hour = generator.integers(1000, size=n_rows)
    paid = generator.normal(size=n_rows)
    shop = generator.choice(["Athens", "Bern"], size=n_rows)
    paid[:5] = np.nan
    return pa.table({"card": card, "hour": hour, "shop": shop, "paid": paid, "note": np.arange(n_rows)})


EVENTS = (
    "--entity",
    "card",
    "--time",
    "hour",
    "--unit",
    "h",
    "--observed",
    "paid",
    "--drop",
    "note",
    "--seed",
    1,
)


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of events, a model of their sequences, and its out-of-fold vectors."""
    folder = tmp_path_factory.mktemp("sequences")
    write(make_events(), folder / "events.csv")
    code, text = call(
        *("fit", folder / "events.csv", "--target", "paid", "-o", folder / "model", *EVENTS),
        *("--vectors", folder / "vectors.parquet", "--position", "gru", "--categorical", "card"),
    )
    assert code == 0, text
    cards = make_events()["card"].to_pylist()
    unknown, missing = sum(card is not None for card in cards[:5]), sum(card is None for card in cards)
    assert f"warning: y is missing in {unknown} of {150 - missing} rows: they are history" in text
    assert "dropped" not in text
    assert f"warning: {missing} rows are left out: column 'card' is missing in {missing}" in text
    assert text.count("rows are left out") == 1
    return folder


def test_sequences_are_fitted_and_their_rows_keep_their_place(sequences: Path) -> None:
    vectors, cards = pd.read_parquet(sequences / "vectors.parquet"), make_events()["card"].to_pylist()
    assert list(vectors) == [f"row_e{i}" for i in range(64)]
    absent = [card is None for card in cards]
    assert np.array_equal(vectors.isna().all(axis=1), absent)
    assert np.array_equal(vectors.isna().any(axis=1), absent)
    embedder = tabembed.load(sequences / "model")
    assert (embedder.position, embedder.target_type_) == ("gru", "continuous")
    assert embedder.feature_names_in_.tolist() == ["card", "hour", "shop", "paid"]
    assert embedder.encoder_.kinds_ == {"shop": "categorical", "paid": "continuous"}


def test_sequences_are_transformed_by_row_and_by_entity(sequences: Path, tmp_path: Path) -> None:
    for output, out in (("row", tmp_path / "rows.parquet"), ("entity", tmp_path / "cards.parquet")):
        code, text = call(
            *("transform", sequences / "model", sequences / "events.csv", "-o", out, "--output", output)
        )
        assert code == 0, text
    embedder = tabembed.load(sequences / "model")
    expected = embedder.transform(make_events().drop(["note"]).to_pandas())
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "rows.parquet").to_numpy(), expected)
    cards = pd.read_parquet(tmp_path / "cards.parquet")
    assert cards["card"].tolist() == ["007", "08", "11", "12", "13", "14", "7"]
    assert cards.columns[1:].tolist() == [f"entity_e{i}" for i in range(64)]


def test_sequences_are_described(sequences: Path, tmp_path: Path) -> None:
    code, text = call("describe", sequences / "model")
    assert code == 0, text
    assert "SequenceEmbedder" in text
    assert re.search(r"entity card: 7 of at most \d+ rows; time hour known only after its row: paid", text)
    assert re.search(r"shop . categorical . 2 . 0\.0% . \d+ ", text)
    assert re.search(r"paid . continuous . - . 3\.9% . \d+ ", text)
    tabembed.SequenceEncoder("shop", "hour", ["note"]).fit(make_events()).save(tmp_path / "encoder")
    code, text = call("describe", tmp_path / "encoder")
    assert code == 0, text
    assert "SequenceEncoder, 150 rows entity shop: 2 of" in text
    assert "known only after its row: nothing" in text


def test_a_table_without_a_target(folder: Path, tmp_path: Path) -> None:
    source, written = folder / "shops.parquet", tmp_path / "v.parquet"
    code, text = call("fit", source, "-o", tmp_path / "model", "--output", "row", "--vectors", written)
    assert code == 0, text
    embedder, table = tabembed.load(tmp_path / "model"), pd.read_parquet(source)
    assert embedder.target_type_ == "masked_columns"
    assert np.array_equal(pd.read_parquet(written).to_numpy(), embedder.transform(table))


def test_sequences_without_a_target(sequences: Path, tmp_path: Path) -> None:
    source, options = (
        sequences / "events.csv",
        ["--position", "none", "--clock", "index", "--output", "entity"],
    )
    code, text = call(
        *("fit", source, "-o", tmp_path / "model", *EVENTS, *options, "--vectors", tmp_path / "v.parquet")
    )
    assert code == 0, text
    embedder = tabembed.load(tmp_path / "model")
    assert (embedder.target_type_, embedder.position, embedder.clock) == ("next_row", None, "index")
    assert embedder.encoder_.unit == "h"
    assert pd.read_parquet(tmp_path / "v.parquet")["card"].tolist() == [7, 8, 11, 12, 13, 14]


def test_options_of_sequences_need_each_other(sequences: Path, tmp_path: Path) -> None:
    fit = ("fit", sequences / "events.csv", "-o", tmp_path / "model")
    mistakes = {
        "--entity must come with --time": (*fit, "--entity", "card"),
        "--time must come with --entity": (*fit, "--target", "paid", "--time", "hour"),
        "--observed must come with --entity": (*fit, "--target", "paid", "--observed", "note"),
        "--position must come with --entity": (*fit, "--target", "paid", "--position", "gru"),
        "--target must be another column than --entity, got 'card'": (*fit, *EVENTS, "--target", "card"),
        "--target must be another column than --time, got 'hour'": (*fit, *EVENTS, "--target", "hour"),
        "column 'cart': not in": (*fit, "--entity", "cart", "--time", "hour"),
        "column 'late': not in": (*fit, *EVENTS, "--observed", "late"),
        "output must be one of row, entity, got 'both'": (*fit, *EVENTS, "--output", "both"),
        "output must be one of columns, row, both, got 'entity'": (
            *fit,
            "--target",
            "note",
            "--output",
            "entity",
        ),
        "unit must be one of": (*fit, *EVENTS, "--unit", "weeks"),
    }
    for text, command in mistakes.items():
        code, output = call(*command)
        assert code == 2, (command, output)
        assert text in output, (text, output)
    assert list(tmp_path.iterdir()) == []


def test_a_unit_is_for_numbers(tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=40).to_numpy()
    for when in (days, [f"day {i}" for i in range(40)]):
        source = write(pa.table({"who": np.arange(40) % 4, "when": when}), tmp_path / "times.parquet")
        fit = ("fit", source, "-o", tmp_path / "model", "--entity", "who", "--time", "when", "--unit", "D")
        code, output = call(*fit)
        assert code == 2
        assert "--unit must be for a --time of numbers, got 'D': 'when' holds times or text" in output
    assert not (tmp_path / "model").exists()


def test_help_says_where_history_comes_from() -> None:
    assert "it must hold the past of its rows, too" in plain(call("transform", "--help")[1])
    assert "rows without a target stay as history" in plain(call("fit", "--help")[1])


def plain(text: str) -> str:
    """Words alone, without the frames that they stand in."""
    return re.sub(r"[\s│]+", " ", text)
