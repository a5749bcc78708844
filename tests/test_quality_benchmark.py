"""The benchmark of encodings: who sees which rows, what a score is, what the report says of it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from tabembed.datasets import PackageFile

ROOT = Path(__file__).parents[1]
QUALITY = ROOT / "examples" / "benchmarks" / "quality"
sys.path.insert(0, str(QUALITY))

import encoders  # noqa: E402
import entity  # noqa: E402
import models  # noqa: E402
import noise  # noqa: E402
import page  # noqa: E402
import peers  # noqa: E402
import records  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import summary  # noqa: E402
import tables  # noqa: E402


def installed():
    sources = [value for value in vars(tables).values() if isinstance(value, PackageFile)]
    try:
        return len(sources) == 8 and all(source.find() for source in sources)
    except FileNotFoundError:
        return False


full_tables = pytest.mark.skipif(not installed(), reason="needs `make data`")


def made(n_rows=997, name="made", task="binary", **more):
    """A table that says something of its target, with missing cells and rare words."""
    rng = np.random.default_rng(3)
    x, word = rng.standard_normal(n_rows), rng.integers(12, size=n_rows)
    y = x + (word % 3) + rng.standard_normal(n_rows)
    X = pd.DataFrame({"x": x, "n": rng.integers(5, size=n_rows), "word": word.astype(str)})
    X.loc[::17, "x"], X.loc[::19, "word"] = np.nan, None
    X = X.astype({"word": "str"})
    return tables.Table(name, X, np.where(y > 1, "yes", "no") if task == "binary" else y, task, **more)


# Who sees which rows


@pytest.mark.parametrize("n_rows", [7, 997, 33_571, 60_001])
def test_test_rows_are_fixed_and_nobody_else_sees_them(n_rows):
    table = made(n_rows)
    train, test = tables.split(table, 0)
    other, same = tables.split(table, 1)
    assert test.tolist() == same.tolist()
    assert len(test) == min(10_000, int(0.3 * n_rows))
    pool = n_rows - len(test)
    assert len(train) == (10_000 if pool >= 12_000 else int(0.85 * pool))
    for drawn in (train, other, *tables.dev_split(table, 0), *tables.dev_split(table, 5)):
        assert len(set(drawn)) == len(drawn)
        assert not set(drawn) & set(test)
    if n_rows > 7:
        assert set(train) != set(other)


@pytest.mark.parametrize("n_rows", [997, 60_001])
def test_choices_are_made_inside_the_pool_on_rows_that_are_fixed(n_rows):
    table = made(n_rows)
    train, valid = tables.dev_split(table, 0)
    other, same = tables.dev_split(table, 1)
    assert valid.tolist() == same.tolist()
    assert set(train) != set(other)
    assert not (set(train) | set(other)) & set(valid)
    pool = n_rows - len(tables.split(table, 0)[1])
    assert len(valid) == min(10_000, int(0.3 * pool))


def test_an_official_test_part_is_kept_apart_whole():
    official = np.arange(50_000) >= 30_000
    train, test = tables.split(made(50_000, may_test=official), 0)
    assert len(test) == 10_000
    assert official[test].all()
    assert len(train) == 10_000
    assert not official[train].any()


def test_rows_in_time_stay_in_order_and_validate_late():
    month = np.sort(np.random.default_rng(0).integers(1, 13, size=4_001))
    table = made(4_001, may_test=month >= 10, may_validate=(month == 8) | (month == 9), in_time=True)
    train, test = tables.split(table, 4)
    assert (np.diff(train) > 0).all()
    assert month[train].max() == 9
    assert len(train) == int(0.85 * (month < 10).sum())
    assert test.tolist() == np.flatnonzero(month >= 10).tolist()
    train, valid = tables.dev_split(table, 4)
    assert (np.diff(train) > 0).all()
    assert month[train].max() == 7
    assert valid.tolist() == np.flatnonzero((month == 8) | (month == 9)).tolist()


def test_a_file_that_is_sorted_loses_its_order():
    train, _ = tables.split(made(997), 0)
    assert (np.diff(train) < 0).any()


SHAPES = {
    "adult": (48_842, 14),
    "census": (299_285, 40),
    "diamonds": (53_940, 9),
    "california": (20_640, 8),
    "ames": (2_930, 73),
    "loans": (10_000, 45),
    "pets": (52_475, 3),
    "credit": (1_000, 20),
    "flights": (327_346, 11),
}


@full_tables
@pytest.mark.parametrize("name", tables.TABLES)
def test_the_tables(name):
    table = tables.TABLES[name]()
    assert table.name == name
    assert table.X.shape == SHAPES[name]
    assert table.X.index.equals(pd.RangeIndex(len(table.y)))
    assert len(np.unique(table.y)) == 2 if table.task == "binary" else np.isfinite(table.y).all()
    kinds = {str(dtype) for dtype in table.X.dtypes}
    assert kinds <= {"int32", "int64", "float64", "str"}
    assert "weight" not in table.X


@full_tables
def test_what_follows_from_a_target_is_no_column():
    loans, flights = tables.TABLES["loans"](), tables.TABLES["flights"]()
    assert not {"grade", "sub_grade", "installment", "balance", "loan_status"} & set(loans.X)
    assert not [name for name in loans.X if name.startswith("paid_")]
    known = {"day", "weekday", "hour", "minute", "arrival", "carrier", "flight", "tailnum", "origin", "dest"}
    assert set(flights.X) == known | {"distance"}
    pets = tables.TABLES["pets"]()
    assert list(pets.X) == ["animal_name", "zip_code", "issued"]
    assert pets.dropped == "38 rows of Goat; 6 rows of Pig"


@full_tables
def test_flights_are_split_by_time_and_census_as_it_came():
    flights, census = tables.TABLES["flights"](), tables.TABLES["census"]()
    train, test = tables.split(flights, 0)
    assert train.max() < test.min()
    assert tables.dev_split(flights, 0)[0].max() < tables.dev_split(flights, 0)[1].min()
    train, test = tables.split(census, 0)
    assert train.max() < 199_523 <= test.min()


# Models


def test_neighbours_are_those_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(models, "NEIGHBOURS", (15,))
    rng = np.random.default_rng(0)
    train, test = rng.standard_normal((211, 4)), rng.standard_normal((53, 4))
    y = (train[:, 0] > 0.3).astype(int)
    peer = KNeighborsClassifier(15).fit(train, y).predict_proba(test)[:, 1]
    monkeypatch.setattr(models, "scalings", lambda *both: iter([both]))
    np.testing.assert_allclose(models.neighbours("binary", train, y, test, 0), peer)


def test_no_row_is_its_own_neighbour_even_among_equals():
    train = np.repeat(np.float32([[0.0], [1.0], [5.0]]), 3, axis=0)
    index = models.NearestNeighbors(algorithm="brute").fit(train)
    found = models._others(index, train, np.arange(9), 2)
    for row, others in enumerate(found):
        assert set(others) == set(range(row // 3 * 3, row // 3 * 3 + 3)) - {row}
    crowded = np.zeros((6, 1), np.float32)
    index = models.NearestNeighbors(algorithm="brute").fit(crowded)
    found = models._others(index, crowded, np.arange(6), 2)
    assert all(row not in others for row, others in enumerate(found))


def test_neighbours_choose_how_many_and_the_scale_by_the_training_rows():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((600, 2)) * [1.0, 1000.0]  # the second column is loud, and says nothing
    y = (x[:, 0] > 0).astype(int)
    predicted = models.neighbours("binary", x[:400], y[:400], x[400:], 0)
    assert models.score("binary", y[400:], predicted) > 0.97


def test_linear_models_are_those_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(models, "STRENGTHS", (0.1,))
    rng = np.random.default_rng(2)
    train, test = rng.standard_normal((307, 3)) * [1, 10, 100], rng.standard_normal((41, 3))
    y = train @ [1, 0.1, 0.01] + rng.standard_normal(307)
    monkeypatch.setattr(models, "scalings", lambda *both: iter([both]))
    peer = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000).fit(train, y > 0).decision_function(test)
    ours = models.linear("binary", train, (y > 0).astype(int), test, 0)
    np.testing.assert_allclose(ours, peer, atol=1e-3)
    peer = RidgeCV(models.ALPHAS).fit(train, y).predict(test)
    np.testing.assert_allclose(models.linear("continuous", train, y, test, 0), peer, rtol=1e-9)


def test_a_sparse_matrix_keeps_its_zeros_and_ones():
    sparse = models.sparse.csr_matrix(np.eye(3))
    assert len(list(models.scalings(sparse, sparse))) == 1
    dense = np.arange(6.0).reshape(3, 2)
    (_, _), (ours, _) = models.scalings(dense, dense)
    np.testing.assert_allclose(ours, StandardScaler().fit_transform(dense))


def test_scores():
    assert models.score("binary", np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.2, 0.3])) == 1.0
    assert models.score("continuous", np.array([0.0, 2.0]), np.array([3.0, 6.0])) == pytest.approx(12.5**0.5)


# Encoders


@pytest.mark.parametrize("name", encoders.ENCODERS)
@pytest.mark.parametrize("task", ["binary", "continuous"])
def test_every_encoder_takes_missing_cells_and_words_never_seen(name, task):
    table = made(431, task=task)
    train, test = table.X.iloc[:300], table.X.iloc[300:].copy()
    test.loc[test.index[5], "word"] = "never seen"
    before = train.copy()
    y = run.coded(table)[:300]
    views = encoders.ENCODERS[name](train, y, test, task, 0)
    pd.testing.assert_frame_equal(train, before)
    assert list(views) == (list(encoders.VIEWS) if name == encoders.OURS else [""])
    for ours, theirs in views.values():
        assert (ours.shape[0], theirs.shape[0]) == (300, 131)
        assert ours.shape[1] == theirs.shape[1]
        for part in (ours, theirs):
            assert np.isfinite(models.dense(part, float)).all()


def test_views_are_parts_of_one_fit():
    table = made(200)
    views = encoders.tabembed(table.X[:150], run.coded(table)[:150], table.X[150:], "binary", 0)
    for part in (0, 1):
        together = np.hstack([views["columns"][part], views["row"][part]])
        np.testing.assert_array_equal(views["both"][part], together)
    assert views["row"][0].shape[1] == 16


def test_a_table_of_numbers_alone():
    table = made(400)
    numbers = table.X[["x", "n"]]
    for name, encode in peers.PEERS.items():
        ours, theirs = encode(numbers[:300], run.coded(table)[:300], numbers[300:], "binary", 0)[""]
        assert ours.shape == (300, 3), name  # x, n, and whether x is missing
        assert np.isfinite(models.dense(theirs, float)).all()


def test_entity_embeddings_have_sizes_by_rule_and_leave_the_generator_alone():
    table = made(400)
    state = torch.get_rng_state()
    first = entity.entity_embeddings(table.X[:300], run.coded(table)[:300], table.X[300:], "binary", 7)
    assert torch.equal(state, torch.get_rng_state())
    again = entity.entity_embeddings(table.X[:300], run.coded(table)[:300], table.X[300:], "binary", 7)
    np.testing.assert_array_equal(first[1], again[1])
    words = 1 + table.X["word"][:300].nunique()
    assert first[0].shape[1] == round(1.6 * words**0.56) + 3
    same = table.X["word"][:300].eq("4").to_numpy().nonzero()[0]
    assert len(np.unique(first[0][same, :-3], axis=0)) == 1  # a word has one vector, that of the whole fit


# Records


def record(table="a", encoder="onehot", seed=0, score=0.5, task="binary", views=("",), **more):
    scores = score if isinstance(score, dict) else dict.fromkeys(models.MODELS, score)
    results = {model: {"score": value, "processor_seconds": 1.0} for model, value in scores.items()}
    return {
        **{"table": table, "encoder": encoder, "seed": seed, "task": task, "processor_seconds": 2.0},
        "code": records.code(encoder),
        "views": {view: {"width": 4, **results} for view in views},
        **more,
    }


def test_records_come_back_and_old_ones_of_named_encoders_do_not_count(tmp_path):
    assert not records.is_done(tmp_path, "a", "onehot", 0)
    one, old = record(), record(seed=1, code="of another time")
    records.write(tmp_path, one)
    records.write(tmp_path, old)
    assert records.read(tmp_path) == [one, old]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a-onehot-0.json", "a-onehot-1.json"]
    done = [records.is_done(tmp_path, "a", "onehot", seed) for seed in range(3)]
    assert done == [True, True, False]
    done = [records.is_done(tmp_path, "a", "onehot", seed, again=["onehot"]) for seed in range(2)]
    assert done == [True, False]
    assert records.is_done(tmp_path, "a", "onehot", 1, again=["tabembed"])


def test_a_record_that_fails_leaves_the_old_one(tmp_path):
    records.write(tmp_path, record(score=0.25))
    with pytest.raises(TypeError, match="not JSON serializable"):
        records.write(tmp_path, record(score=object()))
    assert records.read(tmp_path)[0]["views"][""]["linear"]["score"] == 0.25


def test_prose_and_format_do_not_change_a_fingerprint(tmp_path):
    texts = {
        "plain": "def f(a):\n    return a + 1\n",
        "prose": '"""Doc."""\ndef f(a):\n    """Doc."""\n    # why\n    return (a +\n        1)\n',
        "other": "def f(a):\n    return a + 2\n",
    }
    found = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found[name] = records.fingerprint([tmp_path / name])
    assert found["plain"] == found["prose"] != found["other"]
    assert records.code("onehot") == records.code("ordinal") != records.code("tabembed")
    assert records.code("entity") != records.code("onehot")


def started(monkeypatch, tmp_path, *arguments):
    """The program, on two made tables, with a measurement that only counts."""
    spec = importlib.util.spec_from_file_location("quality_program", QUALITY / "__main__.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    calls = []

    def measure(table, encoder, seed, rows):
        calls.append((table.name, encoder, seed, rows))
        return record(table.name, encoder, seed)

    known = {name: lambda name=name: made(50, name) for name in ("flights", "credit")}
    for name, value in {"measure": measure, "TABLES": known, "FOLDER": tmp_path}.items():
        monkeypatch.setattr(program, name, value)
    monkeypatch.setattr(program, "report", lambda folder: None)
    monkeypatch.setattr(sys, "argv", ["quality", *arguments])
    program.main()
    return calls


def test_a_run_makes_what_is_absent_alone(monkeypatch, tmp_path):
    few = ("--encoders", "onehot,ordinal")
    calls = started(monkeypatch, tmp_path, *few, "--seeds", "2")
    assert calls == [
        (t, e, s, None) for t in ("flights", "credit") for s in (0, 1) for e in ("onehot", "ordinal")
    ]
    assert started(monkeypatch, tmp_path, *few, "--seeds", "2") == []
    records.path(tmp_path, "credit", "ordinal", 1).unlink()
    assert started(monkeypatch, tmp_path, *few, "--seeds", "2") == [("credit", "ordinal", 1, None)]
    more = started(monkeypatch, tmp_path, *few)
    assert {seed for table, _, seed, _ in more if table == "credit"} == {2, 3, 4}
    assert {seed for table, _, seed, _ in more if table == "flights"} == {2}  # three seeds of the largest
    file = records.path(tmp_path, "credit", "onehot", 0)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"code": "of another time"}))
    assert started(monkeypatch, tmp_path, *few) == []
    assert started(monkeypatch, tmp_path, *few, "--again", "ordinal") == []
    assert started(monkeypatch, tmp_path, *few, "--again", "onehot") == [("credit", "onehot", 0, None)]


def test_the_reduced_form_has_a_folder_of_its_own(monkeypatch, tmp_path):
    calls = started(monkeypatch, tmp_path, "--quick", "--encoders", "onehot")
    assert calls == [("credit", "onehot", 0, 2_000)]
    assert [file.name for file in tmp_path.iterdir()] == ["quick"]


def test_an_unknown_name_is_refused(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        started(monkeypatch, tmp_path, "--encoders", "onehott")
    assert "--encoders must be of onehot, ordinal" in capsys.readouterr().err


def test_a_measurement_is_the_models_on_the_encoding():
    table = made(997)
    found = run.measure(table, "ordinal", 1, 200)
    assert (found["n_train"], found["n_test"]) == (200, 200)
    train, test = (rows[:200] for rows in tables.split(table, 1))
    y = (table.y == "yes").astype(int)
    ours, theirs = peers.PEERS["ordinal"](table.X.iloc[train], y[train], table.X.iloc[test], "binary", 1)[""]
    assert found["views"][""]["width"] == ours.shape[1] == 4
    for name, model in models.MODELS.items():
        expected = models.score("binary", y[test], model("binary", ours, y[train], theirs, 1))
        assert found["views"][""][name]["score"] == expected


# The report


def three():
    """Two tables, two seeds, three encoders: all that follows is worked out by hand.

    a is binary (AUC), b continuous (RMSE).
    """
    given = {
        ("a", "onehot"): (0.80, 0.84),
        ("a", "ordinal"): (0.70, 0.70),
        ("a", "tabembed"): (0.80, 0.80),
        ("b", "onehot"): (2.0, 2.0),
        ("b", "ordinal"): (1.0, 1.2),
        ("b", "tabembed"): (1.0, 1.0),
    }
    found = []
    for (table, encoder), scores in given.items():
        task = "binary" if table == "a" else "continuous"
        views = encoders.VIEWS if encoder == "tabembed" else ("",)
        found += [record(table, encoder, seed, s, task, views) for seed, s in enumerate(scores)]
    return found


def test_ranks_by_hand():
    frame = summary.rows(three())
    ranked = summary.means(summary.comparable(summary.entered(frame)))
    order = summary.ranks(ranked)
    assert list(order) == ["linear", "neighbours", "boosting"]
    # a: onehot .82, tabembed .80, ordinal .70; b: tabembed 1.0, ordinal 1.1, onehot 2.0
    assert order["linear"].to_dict() == {"onehot": 2.0, "ordinal": 2.5, "tabembed both": 1.5}


def test_equals_share_their_ranks():
    found = [record("a", name, 0, score) for name, score in {"x": 0.9, "y": 0.9, "z": 0.8}.items()]
    monkey = {one["encoder"]: one for one in found}
    order = summary.ranks(summary.means(summary.rows(monkey.values())))
    assert order["boosting"].to_dict() == {"x": 1.5, "y": 1.5, "z": 3.0}


def test_losses_by_hand():
    ranked = summary.means(summary.comparable(summary.entered(summary.rows(three()))))
    behind = summary.behind_the_best(ranked).set_index(["model", "table"])
    a, b = behind.loc[("linear", "a")], behind.loc[("linear", "b")]
    assert (a["best"], b["best"]) == ("onehot", "tabembed both")
    assert a["behind"] == pytest.approx(0.02)
    assert a["spread"] == pytest.approx(0.04 / 2**0.5)  # two seeds: half the distance times the root of two
    assert a["within"]
    assert (b["behind"], b["within"]) == (0, True)
    boosted = summary.boosting_and_ordinal(ranked).set_index("table")["gain"]
    assert boosted["a"] == pytest.approx(0.10)
    assert boosted["b"] == pytest.approx(1 - 1 / 1.1)
    assert all(summary.reached(ranked).values())


@pytest.mark.parametrize(
    ("table", "task", "ours", "kept"),
    [("a", "binary", 0.699, True), ("a", "binary", 0.697, False)]
    + [("b", "continuous", 1.108, True), ("b", "continuous", 1.12, False)],
)
def test_boosted_trees_may_lose_only_a_little(table, task, ours, kept):
    found = [
        record(table, "ordinal", 0, 0.7 if task == "binary" else 1.1, task),
        record(table, "tabembed", 0, ours, task, encoders.VIEWS),
    ]
    ranked = summary.means(summary.entered(summary.rows(found)))
    assert summary.boosting_and_ordinal(ranked)["within"].tolist() == [kept]
    assert summary.reached(ranked)["boosting: nowhere worse than ordinal codes"] is kept
    assert not summary.reached(ranked)["linear: best mean rank"]


def test_a_seed_that_somebody_lacks_ranks_nobody():
    found = [one for one in three() if (one["table"], one["encoder"], one["seed"]) != ("a", "onehot", 1)]
    ranked = summary.comparable(summary.entered(summary.rows(found)))
    assert set(zip(ranked["table"], ranked["seed"], strict=True)) == {("a", 0), ("b", 0), ("b", 1)}


def test_the_report_says_wins_and_losses(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "TABLES", ["a", "b"])
    for one in three():
        records.write(tmp_path, one)
    records.write(tmp_path, record("a", "ordinal", 1, 0.7, code="of another time"))
    report.report(tmp_path)
    said = capsys.readouterr().out
    assert "best on 1 of 2 tables (b)" in said
    assert "a: 0.8000 against 0.8200 ± 0.0283 of onehot, within its spread" in said
    assert "b: -9.1% RMSE" in said
    assert "1 records were made by other code" in said
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["stale"] == ["a ordinal 1"]
    assert found["ranks"]["linear"]["tabembed both"] == 1.5
    text = page.results(report.Findings(tmp_path))
    assert "| tabembed both | 1.50 | 0.8000 ± 0.0000 | 1.0000 ± 0.0000 |" in text
    assert "| tabembed row |  | 0.8000 ± 0.0000 | 1.0000 ± 0.0000 |" in text


def test_the_section_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "TABLES", ["a", "b"])
    found = three()
    for one in found:
        records.write(tmp_path, one)
    text = page.readme(report.Findings(tmp_path))
    assert "| **tabembed both** | **1.50** | **1.50** | **1.50** | **4** | **2.0** |" in text
    cell = "0.8000 (onehot 0.8200 ± 0.0283)"
    assert f"| a | {cell} | {cell} | {cell} | +0.1000 |" in text
    assert "| b | **1.0000** | **1.0000** | **1.0000** | -9.1% |" in text
    assert "- linear: best mean rank: yes" in text
    for one in found:
        if (one["table"], one["encoder"]) == ("a", "tabembed"):
            records.write(tmp_path, record("a", "tabembed", one["seed"], 0.69, views=encoders.VIEWS))
    text = page.readme(report.Findings(tmp_path))
    assert "| a | 0.6900 (onehot 0.8200 ± 0.0283, a loss)" in text
    assert "-0.0100, a loss |" in text
    assert "- linear: within one spread of the best on every table: **no**" in text


def test_without_a_ranking_there_is_nothing_to_write(tmp_path, monkeypatch):
    import chart

    monkeypatch.setattr(report, "TABLES", ["a", "b"])
    records.write(tmp_path, record())
    with pytest.raises(SystemExit, match="nothing to write"):
        page.readme(report.Findings(tmp_path))
    with pytest.raises(SystemExit, match="nothing to draw"):
        chart.draw(report.Findings(tmp_path), tmp_path / "no.svg")
    assert [file.suffix for file in tmp_path.iterdir()] == [".json"]


def test_a_part_of_a_run_ranks_nobody(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "TABLES", ["a", "b"])
    records.write(tmp_path, record())
    report.report(tmp_path)
    assert "nobody is ranked" in capsys.readouterr().out


def test_the_picture_is_the_same_for_the_same_numbers(tmp_path, monkeypatch):
    import chart

    monkeypatch.setattr(report, "TABLES", ["a", "b"])
    for one in three():
        records.write(tmp_path, one)
    for name in ("one.svg", "two.svg"):
        chart.draw(report.Findings(tmp_path), tmp_path / "plots" / name)
    texts = [(tmp_path / "plots" / name).read_text() for name in ("one.svg", "two.svg")]
    assert texts[0] == texts[1]
    assert "tabembed both" in texts[0]


# Noise


def tells(train, y, test, task, seed):
    """Training rows that carry their own target."""
    return {"": (y[:, None].astype(float), np.random.default_rng(0).standard_normal((len(test), 1)))}


def says_nothing(train, y, test, task, seed):
    rng = np.random.default_rng(seed)
    return {"": (rng.standard_normal((len(train), 2)), rng.standard_normal((len(test), 2)))}


@pytest.mark.parametrize(("encode", "ok"), [(tells, False), (says_nothing, True)])
@pytest.mark.parametrize("task", ["binary", "continuous"])
def test_a_target_that_leaks_is_found(monkeypatch, encode, ok, task):
    monkeypatch.setitem(noise.ENCODERS, "onehot", encode)
    monkeypatch.setattr(noise, "MODELS", {"linear": models.linear, "neighbours": models.neighbours})
    found = [noise.measure(made(2_501, task=task), "shuffled", "onehot", seed) for seed in range(2)]
    assert [line["ok"] for line in noise.findings(found)] == [ok] * 2


def test_columns_of_noise_are_compared_with_the_plain_table(monkeypatch):
    monkeypatch.setattr(noise, "MODELS", {"linear": models.linear, "neighbours": models.neighbours})
    table = made(2_001)
    found = [noise.measure(table, kind, "ordinal", 0) for kind in ("plain", "noise")]
    lines = {line["model"]: line for line in noise.findings(found)}
    assert list(lines) == ["linear", "neighbours"]
    moved = found[1]["test"][""]["neighbours"] - found[0]["test"][""]["neighbours"]
    assert lines["neighbours"]["other"] == pytest.approx(moved)
    assert not lines["neighbours"]["ok"]  # ten columns of noise beside three
    assert noise.noise(table).X.shape[1] == 13
    assert table.X.shape[1] == 3
    assert sorted(noise.shuffled(table).y) == sorted(table.y)


def test_chance_is_that_of_random_ranks():
    rng = np.random.default_rng(0)
    y = (rng.random(301) < 0.3).astype(int)
    ranks = rng.random((2_000, 301)).argsort(axis=1).argsort(axis=1) + 1
    ones = y.sum()
    drawn = (ranks @ y - ones * (ones + 1) / 2) / (ones * (301 - ones))  # areas, by the rank sum of the ones
    assert noise.chance(y) == pytest.approx(np.std(drawn), rel=0.06)


@pytest.mark.slow
@full_tables
def test_the_program_runs(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TABEMBED_DATA": str(ROOT / ".data")}
    arguments = ["--quick", "--tables", "credit", "--encoders", "onehot,ordinal,tabembed"]
    done = subprocess.run(
        [sys.executable, QUALITY, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Boosted trees on tabembed rather than ordinal codes" in done.stdout
    assert len(list((tmp_path / "build" / "quality" / "quick").glob("credit-*.json"))) == 3
