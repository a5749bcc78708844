"""The demo's part on rows in time: the same flights, with what their aircraft did before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

HISTORY = "tabembed vectors, history"
ENTITY, TIME, OBSERVED = "tailnum", "time_hour", ["dep_delay", "arr_delay"]
COLUMNS = ["carrier", "origin", "dest", "hour", "sched_dep_time", "sched_arr_time", "distance"]
CATEGORIES, MIN_FREQUENCY = COLUMNS[:4], 10


def with_history(
    flights: pandas.DataFrame, late: np.ndarray, past: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Row vectors that hold what the aircraft did before: its delays, too, but for the flight's own.

    Args:
        flights: flights that have landed.
        late: their target.
        past: True for the flights of the fit.

    Returns: out-of-fold vectors of the flights of the fit, and vectors of the others, which are encoded with
        their whole past.

    Shape:
        - late, past: ``(n_flights,)``
        - output: ``(n_past, n_vectors)`` and ``(n_flights - n_past, n_vectors)``
    """
    from tabembed import Categorical, SequenceEmbedder, SequenceEncoder, TableEncoder

    columns = TableEncoder({name: Categorical() for name in CATEGORIES}, min_frequency=MIN_FREQUENCY)
    encoder = SequenceEncoder(ENTITY, TIME, columns, observed=OBSERVED)
    embedder = SequenceEmbedder(encoder, position="alibi", num_layers=1, max_iter=4, cv=2, random_state=0)
    X = flights[[ENTITY, TIME, *COLUMNS, *OBSERVED]]
    return embedder.fit_transform(X[past], late[past]), embedder.transform(X)[~past]
