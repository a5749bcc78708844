"""A TableEmbedding under a network of your own, trained by skorch inside a scikit-learn pipeline.

python examples/skorch_training.py [--quick]
"""

import sys

import torch
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping
from torch import Tensor, nn

from tabembed import Categorical, TableBatch, TableEmbedding, TableEncoder
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
torch.manual_seed(0)  # skorch shuffles by PyTorch's global generator
flights = load_flights().dropna(subset=["arr_delay"])
if quick:
    flights = flights.sample(4000, random_state=0)

past = (flights["month"] < 10).to_numpy()
X = flights[["carrier", "flight", "tailnum", "origin", "dest", "sched_dep_time", "distance"]]
late = (flights["arr_delay"] > 15).to_numpy().astype("int64")


class Net(nn.Module):
    """Embedding, one hidden layer, two logits."""

    def __init__(self, schema) -> None:
        super().__init__()
        self.embedding = TableEmbedding(schema, unknown_dropout=0.02)
        self.head = nn.Sequential(nn.Linear(self.embedding.output_dim, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, ids: Tensor, values: Tensor, missing: Tensor) -> Tensor:
        return self.head(self.embedding(ids, values, missing))


encoder = TableEncoder({"flight": Categorical()}, min_frequency=10)
net = NeuralNetClassifier(
    Net,
    module__schema=encoder.fit(X[past]).schema_,  # the pipeline fits it again, to the same rows
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.AdamW,
    lr=2e-3,
    batch_size=512,
    max_epochs=2 if quick else 20,
    callbacks=[EarlyStopping(patience=3, load_best=True)],
    verbose=0,
)
# skorch takes a dict of tensors as the arguments of forward, and cuts its batches out of it.
model = make_pipeline(encoder, FunctionTransformer(TableBatch.tensors), net).fit(X[past], late[past])
later = model.predict_proba(X[~past])[:, 1]
print(f"ROC AUC on the later months: {roc_auc_score(late[~past], later):.3f}")
