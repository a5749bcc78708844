"""The demo: flights become tensors, trained vectors, and a comparison with what people use today."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tabembed.cli.demo_history import HISTORY, with_history

if TYPE_CHECKING:
    import pandas

CATEGORIES = ["carrier", "flight", "tailnum", "origin", "dest", "hour"]
NUMBERS = ["sched_dep_time", "sched_arr_time", "distance"]
TARGET, LATE_MINUTES, FIRST_TEST_MONTH, MIN_FREQUENCY = "arr_delay", 15, 10, 10

Features = tuple[np.ndarray, np.ndarray]


def run(folder: Path) -> None:
    """Print the demo; leave ``model/`` and ``embeddings.parquet`` in ``folder``.

    Args:
        folder: where to write; made when absent.

    Raises: RuntimeError when the model that was saved and read back gives other vectors.
    """
    from rich.console import Console
    from rich.table import Table

    import tabembed
    from tabembed.cli.files import write_table
    from tabembed.cli.report import column_table
    from tabembed.datasets import load_flights

    console = Console()
    flights = load_flights()
    landed = flights[flights[TARGET].notna()]
    late = (landed[TARGET] > LATE_MINUTES).to_numpy().astype(np.int64)
    past = (landed["month"] < FIRST_TEST_MONTH).to_numpy()
    X = landed[CATEGORIES + NUMBERS]
    train, test, y, y_test = X[past], X[~past], late[past], late[~past]
    console.print(f"{len(flights):,} flights; {len(flights) - len(landed):,} dropped, which have no {TARGET}")
    console.print(f"train: {len(train):,} flights, January to September, {y.mean():.1%} late")
    console.print(f"test: {len(test):,} flights, October to December, {y_test.mean():.1%} late")

    with console.status("training on the whole and on the folds"):
        embedder, vectors = _tabembed(train, y, test)
    batch = embedder.encoder_.transform(test)
    console.print("\nThe columns, all known before departure, and the width of their vectors")
    console.print(column_table(embedder.encoder_, embedder.network_.column_widths()))
    console.print(
        "The test flights as tensors: "
        + ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in batch.tensors().items())
    )

    console.print(f"\nIs {TARGET} > {LATE_MINUTES} minutes? Logistic regression on the test flights")
    table = Table("features")
    for heading in ("width", "ROC AUC", "95% bootstrap interval"):
        table.add_column(heading, justify="right")
    with console.status("training on the aircrafts' own history"):
        vectors[HISTORY] = with_history(landed, late, past)
    aucs = {}
    with console.status("fitting the regressions"):
        for name, (seen, new) in {**_baselines(train, y, test), **vectors}.items():
            aucs[name], low, high = _score(seen, y, new, y_test)
            table.add_row(name, f"{seen.shape[1]:,}", f"{aucs[name]:.3f}", f"{low:.3f} to {high:.3f}")
    console.print(table)
    best, auc = max((item for item in aucs.items() if item[0] != HISTORY), key=itemgetter(1))
    console.print(f"The aircraft's own history gains {aucs[HISTORY] - auc:+.3f} of ROC AUC over {best}")

    folder.mkdir(parents=True, exist_ok=True)
    embedder.save(folder / "model")
    write_table(_embedding_tables(embedder), folder / "embeddings.parquet")
    again = tabembed.load(folder / "model").transform(test)
    if not np.array_equal(np.asarray(again), np.asarray(embedder.transform(test))):
        raise RuntimeError("demo must read back the vectors that it saved, got others")
    console.print(f"saved {folder / 'model'} and {folder / 'embeddings.parquet'}")
    console.print("the model, read back, gives the same vectors")


def _tabembed(
    train: pandas.DataFrame, y: np.ndarray, test: pandas.DataFrame
) -> tuple[Any, dict[str, Features]]:
    """The embedder, and by output the vectors of the training rows (out of fold) and of the test rows."""
    from tabembed import Categorical, TableEmbedder, TableEncoder

    encoder = TableEncoder({name: Categorical() for name in CATEGORIES}, min_frequency=MIN_FREQUENCY)
    embedder = TableEmbedder(encoder, output="both", random_state=0)
    seen, new = embedder.fit_transform(train, y), embedder.transform(test)
    n_columns = len(embedder.set_params(output="columns").get_feature_names_out())
    embedder.set_params(output="both")
    parts = {"columns": slice(n_columns), "row": slice(n_columns, None), "both": slice(None)}
    return embedder, {
        f"tabembed vectors, {name}": (seen[:, part], new[:, part]) for name, part in parts.items()
    }


def _baselines(train: pandas.DataFrame, y: np.ndarray, test: pandas.DataFrame) -> dict[str, Features]:
    from sklearn.compose import make_column_transformer
    from sklearn.model_selection import StratifiedKFold
    from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

    encoders = {
        f"one-hot (min_frequency={MIN_FREQUENCY})": OneHotEncoder(
            min_frequency=MIN_FREQUENCY, handle_unknown="infrequent_if_exist"
        ),
        "TargetEncoder": TargetEncoder(cv=StratifiedKFold(5, shuffle=True, random_state=0)),
    }
    features = {}
    for name, encoder in encoders.items():
        both = make_column_transformer((encoder, CATEGORIES), (StandardScaler(), NUMBERS))
        features[name] = both.fit_transform(train, y), both.transform(test)
    return features


def _score(seen: Any, y: np.ndarray, new: Any, y_test: np.ndarray) -> tuple[float, float, float]:
    """ROC AUC on the test rows, and the ends of its bootstrap interval."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=1000))
    score = model.fit(seen, y).decision_function(new)
    low, high = bootstrap(roc_auc_score, y_test, score)
    return roc_auc_score(y_test, score), low, high


def bootstrap(
    metric: Callable[[np.ndarray, np.ndarray], float], y: np.ndarray, score: np.ndarray, n_draws: int = 300
) -> tuple[float, float]:
    """The 2.5% and 97.5% quantiles of a metric over rows drawn with replacement."""
    generator = np.random.default_rng(0)
    draws = generator.integers(len(y), size=(n_draws, len(y)))
    low, high = np.quantile([metric(y[rows], score[rows]) for rows in draws], (0.025, 0.975))
    return float(low), float(high)


def _embedding_tables(embedder: Any) -> Any:
    """The trained vectors of every category of every column, one below the other."""
    import pandas
    import pyarrow

    tables = []
    for column in embedder.encoder_.schema_.categorical:
        table = embedder.embedding_table(column.name)
        table["category"] = table["category"].map(str)  # columns hold text and integers
        table.insert(0, "column", column.name)
        tables.append(table)
    return pyarrow.Table.from_pandas(pandas.concat(tables, ignore_index=True), preserve_index=False)
