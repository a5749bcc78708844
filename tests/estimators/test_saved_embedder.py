from __future__ import annotations

import copy
import json
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import KFold

import tabembed
from tabembed import ArtifactError, LinearEmbedding, TableEmbedder, TableEncoder
from tabembed.nn import TimeEmbedding

pytestmark = pytest.mark.filterwarnings("ignore:TableEmbedder.transform got the table")

SCRIPT = """
import sys, warnings
import numpy as np, pandas as pd, tabembed
embedder = tabembed.load(sys.argv[1])
warnings.simplefilter("ignore")
np.save(sys.argv[3], embedder.transform(pd.read_parquet(sys.argv[2])))
"""


def test_bit_equal_in_a_fresh_process(table, fitted, tmp_path):
    embedder = copy.deepcopy(fitted).set_params(output="both")
    embedder.save(tmp_path / "model")
    table[0].to_parquet(tmp_path / "table.parquet")
    paths = [str(tmp_path / name) for name in ("model", "table.parquet", "vectors.npy")]
    subprocess.run([sys.executable, "-c", SCRIPT, *paths], check=True)
    expected = embedder.transform(pd.read_parquet(paths[1]))
    assert np.array_equal(np.load(paths[2]), expected)


def test_everything_fitted_comes_back(table, embedder, tmp_path):
    X, y = table
    numeric = partial(LinearEmbedding.from_columns, d_embedding=np.int64(3))
    embedder.set_params(encoder=TableEncoder(min_frequency=2), numeric=numeric, output="row")
    embedder.fit(X, np.where(y > 0, "up", "down")).save(tmp_path / "model")
    before = torch.get_rng_state()
    loaded = tabembed.load(tmp_path / "model")
    assert torch.equal(before, torch.get_rng_state())
    assert isinstance(loaded, TableEmbedder)
    assert loaded.get_params(deep=False).keys() == embedder.get_params(deep=False).keys()
    assert loaded.encoder.get_params() == embedder.encoder.get_params()
    assert loaded.numeric.keywords == {"d_embedding": 3}
    assert loaded.hidden_layer_sizes == (16, 8)
    for name in ("classes_", "feature_names_in_"):
        assert np.array_equal(getattr(loaded, name), getattr(embedder, name))
    for name in ("n_iter_", "validation_losses_", "n_features_in_", "target_type_"):
        assert getattr(loaded, name) == getattr(embedder, name)
    pd.testing.assert_frame_equal(loaded.embedding_table("city"), embedder.embedding_table("city"))
    with pytest.warns(UserWarning, match="not out-of-fold"):
        loaded.transform(X)
    # A loaded embedder can be fitted again, and gives what the first one gave.
    assert np.array_equal(loaded.fit_transform(X, y), embedder.fit_transform(X, y))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"numeric": lambda columns: LinearEmbedding(len(columns))}, "numeric must be None, a module of"),
        ({"time": lambda columns: TimeEmbedding(columns)}, "time must be None, a module of"),
        ({"cv": KFold(2)}, "cv must be plain numbers or text to be saved, got KFold"),
        ({"random_state": np.random.RandomState(0)}, "random_state must be plain numbers or text"),
    ],
)
def test_objects_are_not_saved(table, embedder, tmp_path, params, message):
    embedder.set_params(**params).fit(*table)
    with pytest.raises(ValueError, match=message):
        embedder.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("built", "hidden_layer_sizes"), [10**9, 8]),
        (("built", "n_outputs"), 2),
        (("built", "embedding", "numeric"), {"numeric": "os.system", "keywords": {}}),
        (("built", "embedding", "numeric"), {"numeric": "Dropout", "keywords": {}}),
        (("built", "embedding", "time"), {"time": "os.system", "keywords": {}}),
        (("built", "embedding", "time"), {"numeric": "TimeEmbedding", "keywords": {}}),
        (("built", "embedding", "time"), {"time": "CyclicEmbedding", "keywords": {"periods": "moon"}}),
        (("params",), {"no_such": 1}),
        (("encoder",), {}),
        (("fitted",), {}),
    ],
)
def test_a_wrong_config_is_one_kind_of_error(fitted, tmp_path, path, value):
    fitted.save(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    content = json.loads(file.read_text())
    place = content["config"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file.write_text(json.dumps(content))
    with pytest.raises(ArtifactError):
        tabembed.load(tmp_path / "model")
