"""Trained vectors inside a scikit-learn pipeline, compared with one-hot by cross-validation in time.

python examples/sklearn_pipeline.py [--quick]
"""

import sys

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tabembed import Categorical, TableEmbedder, TableEncoder
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
flights = load_flights().dropna(subset=["arr_delay"]).sort_values("time_hour", kind="stable")
if quick:
    flights = flights[:4000]

categories = ["carrier", "flight", "tailnum", "origin", "dest", "hour"]
numbers = ["sched_dep_time", "distance"]
X, late = flights[categories + numbers], (flights["arr_delay"] > 15).to_numpy()

encoder = TableEncoder({name: Categorical() for name in categories}, min_frequency=10)
folds, epochs = (2, 2) if quick else (5, 20)
embedder = TableEmbedder(encoder, output="both", cv=folds, max_iter=epochs, random_state=0)
one_hot = make_column_transformer(
    (OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist"), categories),
    (StandardScaler(), numbers),
)
pipelines = {
    "one-hot": make_pipeline(one_hot, LogisticRegression(max_iter=1000)),
    "tabembed": make_pipeline(embedder, StandardScaler(), LogisticRegression(max_iter=1000)),
}
splits = TimeSeriesSplit(2 if quick else 4)  # every test part is later than what was trained on
for name, pipeline in pipelines.items():
    scores = cross_val_score(pipeline, X, late, cv=splits, scoring="roc_auc")
    print(f"{name:10} ROC AUC {scores.mean():.3f}  by split {scores.round(3).tolist()}")
