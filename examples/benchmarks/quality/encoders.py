"""Every encoding by its name: those of the peers, and tabembed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from peers import PEERS, Views

from tabembed import TableEmbedder

OURS = "tabembed"
VIEWS = ("columns", "row", "both")


def tabembed(train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, task: str, seed: int) -> Views:
    """One fit with every default; its three views are parts of the same vectors."""
    embedder = TableEmbedder(output="both", random_state=seed)
    parts = [embedder.fit_transform(train, y), embedder.transform(test)]
    n_columns = len(embedder.set_params(output="columns").get_feature_names_out())
    cut = {"columns": slice(n_columns), "row": slice(n_columns, None), "both": slice(None)}
    return {view: (parts[0][:, cut[view]], parts[1][:, cut[view]]) for view in VIEWS}


ENCODERS: dict[str, Callable[..., Views]] = {**PEERS, OURS: tabembed}
