"""A grid search over the vectors, the encoder under them and the model behind them.

python examples/grid_search.py [--quick]
"""

import sys

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tabembed import Categorical, TableEmbedder, TableEncoder
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
flights = load_flights().dropna(subset=["arr_delay"]).sort_values("time_hour", kind="stable")
flights = flights[:1000] if quick else flights[:12_000]

names, numbers = ["carrier", "flight", "tailnum", "origin", "dest"], ["sched_dep_time", "distance"]
X, late = flights[names + numbers], (flights["arr_delay"] > 15).to_numpy()
past, future = slice(None, len(X) * 3 // 4), slice(len(X) * 3 // 4, None)

# Vectors for the names; the numbers go past them. Every split fits all of this on its own training rows, and
# the vectors that the model is trained on there are out-of-fold, so that what they remember does not fool it.
encoder = TableEncoder({name: Categorical() for name in names})
embedder = TableEmbedder(encoder, output="columns", cv=2, max_iter=1 if quick else 8, random_state=0)
columns = make_column_transformer((embedder, names), (StandardScaler(), numbers))
columns.set_output(transform="pandas")
model = Pipeline([("columns", columns), ("model", LogisticRegression(max_iter=1000))])
grid = {
    "columns__tableembedder__encoder__min_frequency": [5, 20],
    "columns__tableembedder__embed_dims": [2] if quick else ["auto", 2],
    "model__C": [1.0] if quick else [0.01, 1.0],
}
splits = TimeSeriesSplit(2)  # every part that is scored is later than what was trained on
search = GridSearchCV(model, grid, cv=splits, scoring="roc_auc", error_score="raise")
search.fit(X[past], late[past])

for name, value in search.best_params_.items():
    print(f"{name.rpartition('__')[2]:14} {value}")
frame = search.best_estimator_["columns"].transform(X[future])
print("columns        " + ", ".join([*frame.columns[:2], "...", frame.columns[-1]]))
print(f"ROC AUC of flights later than all that was searched on: {search.score(X[future], late[future]):.3f}")
