"""What a fitted embedder gives is what its network gives elsewhere: exported, compiled, as ONNX."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import tabembed
from tabembed import (
    CyclicEmbedding,
    PeriodicEmbedding,
    RandomFourierFeatures,
    TableEmbedder,
    TimestampEmbedding,
)
from tabembed.schema import MISSING, PADDING, UNKNOWN

N_ROWS = 61


def table(*, lists: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", "Bern", None], N_ROWS),
            "area": np.where(rng.random(N_ROWS) < 0.2, np.nan, rng.normal(size=N_ROWS)),
            "sold": pd.to_datetime(rng.integers(1.5e18, 1.6e18, N_ROWS)).tz_localize("UTC"),
            "kind": rng.choice(list("pqrst"), N_ROWS),
        }
    )
    frame["sold"] = frame["sold"].dt.tz_convert("America/New_York").mask(rng.random(N_ROWS) < 0.2)
    if lists:
        frame["tags"] = [
            list(rng.choice(list("abc"), n)) if n < 4 else None for n in rng.integers(0, 5, N_ROWS)
        ]
    return frame


def fitted(frame, *, target: bool = True, **settings) -> TableEmbedder:
    embedder = TableEmbedder(max_iter=2, learning_rate_init=0.05, random_state=0, **settings)
    return embedder.fit(frame, np.arange(N_ROWS) % 3 == 0 if target else None)


class Both(nn.Module):
    """``output="both"``, as a module."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, ids, values, missing, times, lists=None):
        tensors = {"ids": ids, "values": values, "missing": missing, "times": times}
        tensors |= {} if lists is None else {"lists": lists}
        return torch.cat([self.network.columns(**tensors), self.network.row(**tensors)], -1)


def exported(module, tensors):
    dynamic = pytree.tree_map(lambda tensor: {0: torch.export.Dim.DYNAMIC}, tensors)
    return torch.export.export(module, (), tensors, dynamic_shapes=dynamic)


def session_of(program, folder):
    torch.onnx.export(program, f=folder / "net.onnx", dynamo=True, verbose=False)
    return onnxruntime.InferenceSession(folder / "net.onnx")


def answer(session, tensors):
    flat = [tensor.numpy() for tensor in pytree.tree_leaves(tensors)]
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, flat, strict=True)))[0]


def served_is_transform(embedder, frame, folder):
    """Saved encoder and ONNX session give the vectors of ``transform``, for other numbers of rows."""
    tensors = embedder.encoder_.transform(frame[:20]).tensors()
    program = exported(Both(embedder.network_).eval(), tensors)
    session = session_of(program, folder)
    embedder.encoder_.save(folder / "encoder")
    encoder = tabembed.load(folder / "encoder")
    new = frame[5:].assign(city=["a new one", None, *frame["city"][7:]])
    # A program of torch.export that takes lists asks for two rows: its guards are about their offsets.
    least = 2 if embedder.encoder_.schema_.lists else 1
    for rows in (new, new[:least], new[1 : 1 + least]):
        tensors, expected = encoder.transform(rows).tensors(), embedder.transform(rows)
        np.testing.assert_allclose(program.module()(**tensors).detach().numpy(), expected, rtol=0, atol=1e-5)
        got = answer(session, tensors)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)
    return session


def test_onnx_of_a_fitted_embedder(tmp_path):
    frame = table()
    embedder = fitted(frame)
    session = served_is_transform(embedder, frame, tmp_path)
    assert [given.name for given in session.get_inputs()] == ["ids", "values", "missing", "times"]
    assert isinstance(session.get_inputs()[0].shape[0], str)  # any number of rows
    # Every id of every column, the reserved ones first; one outside of a table gives zeros and no error.
    n_ids = [column.n_ids for column in embedder.encoder_.schema_.categorical]
    ids = torch.tensor([[PADDING] * 2, [MISSING] * 2, [UNKNOWN] * 2, [n - 1 for n in n_ids], n_ids, [-1, 3]])
    tensors = embedder.encoder_.transform(frame[: len(ids)]).tensors() | {"ids": ids}
    vectors = answer(session, tensors)
    inside = {name: tensor[:4] for name, tensor in tensors.items()}
    expected = Both(embedder.network_)(**inside).detach().numpy()
    np.testing.assert_allclose(vectors[:4], expected, rtol=0, atol=1e-5)
    width = embedder.network_.column_widths()["city"]
    assert not vectors[[0, 4, 5], :width].any()
    assert vectors[[1, 2, 3], :width].any(1).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"time": CyclicEmbedding},
        {"numeric": PeriodicEmbedding, "time": TimestampEmbedding},
        {"numeric": RandomFourierFeatures},
        {"target": False},
        {"lists": True},
    ],
    ids=str,
)
def test_onnx_of_every_kind_of_network(settings, tmp_path):
    frame = table(lists=settings.pop("lists", False))
    served_is_transform(fitted(frame, **settings), frame, tmp_path)


@pytest.mark.slow
def test_a_compiled_network_gives_the_same():
    frame = table()
    embedder = fitted(frame)
    torch.compiler.reset()
    compiled = torch.compile(
        Both(embedder.network_).eval(), dynamic=True, fullgraph=True, backend="aot_eager"
    )
    for rows in (frame[3:30], frame[:7]):
        vectors = compiled(**embedder.encoder_.transform(rows).tensors()).detach().numpy()
        np.testing.assert_allclose(vectors, embedder.transform(rows), rtol=0, atol=1e-5)
