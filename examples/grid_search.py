"""A grid search over the vectors, the encoder under them and the model behind them.

python examples/grid_search.py [--quick]
"""

import sys

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tabembed import Categorical, TableEmbedder, TableEncoder
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
flights = load_flights().dropna(subset=["arr_delay"]).sort_values("time_hour", kind="stable")
flights = flights[:2000] if quick else flights[:12_000]

names, numbers = ["carrier", "flight", "tailnum", "origin", "dest"], ["sched_dep_time", "distance"]
X, late = flights[names + numbers], (flights["arr_delay"] > 15).to_numpy()

# Vectors for the names; the numbers go past them. Every split fits all of this on its own training rows, and the
# vectors that the model is trained on there are out-of-fold, so that it is not fooled by what they remember.
encoder = TableEncoder({name: Categorical() for name in names})
embedder = TableEmbedder(encoder, output="columns", cv=2, max_iter=2 if quick else 8, random_state=0)
columns = make_column_transformer((embedder, names), (StandardScaler(), numbers)).set_output(
    transform="pandas"
)
model = Pipeline([("columns", columns), ("model", LogisticRegression(max_iter=1000))])
grid = {
    "columns__tableembedder__encoder__min_frequency": [5, 20],
    "columns__tableembedder__embed_dims": ["auto"] if quick else ["auto", 2],
    "model__C": [0.01, 1.0],
}
splits = TimeSeriesSplit(2)  # every test part is later than what was trained on
search = GridSearchCV(model, grid, cv=splits, scoring="roc_auc", error_score="raise").fit(X, late)

for name, value in search.best_params_.items():
    print(f"{name.rpartition('__')[2]:14} {value}")
frame = search.best_estimator_["columns"].transform(X.head(3))
print("columns        ", ", ".join(frame.columns[:2]), "...", frame.columns[-1])
plain = cross_val_score(model, X, late, cv=splits, scoring="roc_auc", error_score="raise").mean()
print(f"ROC AUC of the later flights: {plain:.3f} as it stands, {search.best_score_:.3f} as chosen on them")
