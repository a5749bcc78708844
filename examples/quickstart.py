"""A frame of flights -> tensors -> trained vectors, in three steps.

python examples/quickstart.py [--quick]
"""

import sys

from tabembed import Categorical, TableEmbedder, TableEncoder
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
flights = load_flights().dropna(subset=["arr_delay"])
if quick:
    flights = flights[:4000]

# 1. The dtype decides what a column is; a flight number is a name and not a quantity, so we say so.
X = flights[["carrier", "flight", "tailnum", "origin", "dest", "sched_dep_time", "distance"]]
encoder = TableEncoder({"flight": Categorical()}, min_frequency=5)

# 2. A frame becomes tensors. Ids: 0 padding, 1 missing, 2 unknown or rare, then the known values by count.
batch = encoder.fit(X).transform(X)
for name, tensor in batch.tensors().items():
    print(f"{name:8} {tuple(tensor.shape)} {tensor.dtype}")
print("first row:", batch.ids[0].tolist(), "->", encoder.inverse_transform(batch[:1]).iloc[0].to_dict())

# 3. Vectors, trained to predict the target; those of fit_transform are out-of-fold: no row saw its target.
embedder = TableEmbedder(encoder, max_iter=2 if quick else 20, random_state=0)
vectors = embedder.fit_transform(X, flights["arr_delay"].to_numpy())
print("vectors:", vectors.shape, vectors.dtype)
print(embedder.embedding_table("carrier").round(2).to_string(index=False))
