"""A scikit-learn transformer that learns the vectors of a table, from a target or from the table alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tabembed.estimators.fingerprint import fingerprint, warn_of_fit
from tabembed.estimators.learned_tables import LearnedTables
from tabembed.estimators.saved_embedder import SavedEmbedder
from tabembed.estimators.tables import check_names, check_table
from tabembed.nn import PiecewiseLinearEmbedding
from tabembed.nn.sizes import table_dims
from tabembed.schema import TableSchema
from tabembed.table import TableEncoder
from tabembed.table.single_rows import single_rows_unknown
from tabembed.table.warn import warn_user
from tabembed.training.crossfit import fit_with_folds, make_splits
from tabembed.training.loop import Settings
from tabembed.training.masked_columns import make_masked_columns
from tabembed.training.masked_network import MaskedNetwork, table_network
from tabembed.training.modes import own_modes
from tabembed.training.network import MAKERS
from tabembed.training.objective import check_target, make_objective
from tabembed.training.vectors import aligned_parts, check_output, vectors

MAX_DIM = 8
"""Widest vector of a category by itself. On Adult, wider ones scored the same (ROC AUC 0.920)."""


class TableEmbedder(TransformerMixin, LearnedTables, SavedEmbedder):
    """Learn a vector for every category and every row of a table by predicting a target, or its own cells.

    ``fit_transform`` gives every training row vectors from a network that was not trained on it
    (out-of-fold), so a model that is trained on them is not fooled; ``transform`` uses the network
    of all rows. So ``fit(X, y).transform(X)`` differs from ``fit_transform(X, y)`` on purpose, and
    warns. There is no ``sample_weight``: a network's vectors under weights are not those of
    repeated rows, which is what scikit-learn promises of the argument.

    Without ``y`` the network learns from the table alone: some cells of every row are hidden, and it predicts
    them from the others. ``"row"`` is then made of the cells and of its last hidden layer, as principal
    components: the first entries tell most. No target can have got into any vector, so there are no folds,
    and ``fit_transform(X)`` is ``fit(X).transform(X)``.

    Args:
        encoder: a ``TableEncoder``, which turns the table into ids and numbers; ``None`` is
            ``TableEncoder()``.
        numeric: makes the module of the continuous columns inside the network, such as
            ``PeriodicEmbedding`` or ``PiecewiseLinearEmbedding``, or a ``functools.partial`` of its
            ``from_columns`` with settings; ``None`` is ``PiecewiseLinearEmbedding.from_columns``. One that
            fits itself to rows (bins from trees) does so before every training, on its rows alone.
        time: makes the module of the datetime columns inside the network, such as
            ``CyclicEmbedding``; ``None`` is ``TimeEmbedding.from_columns``, a straight line. The columns
            of the output are the same with any: the place between the earliest and the latest time.
        output: what ``transform`` and ``fit_transform`` return: ``"columns"``, the categorical
            columns' vectors and the scaled numbers side by side (themselves, whatever ``numeric`` and
            ``time`` are: those shape the network and so the vectors beside them); ``"row"``, the
            network's last hidden layer (without ``y``, principal components of it and of the cells);
            ``"both"``. Read when they are called: changing it needs no new fit.
        target_type: ``"continuous"``, ``"binary"``, ``"multiclass"``, or ``"auto"``: two distinct
            values are binary; text, booleans and integers of at most 50 distinct values are
            classes; the rest are numbers. Not read without ``y``.
        cv: folds of ``fit_transform``: a number (shuffled, stratified for classes), a splitter, or
            an iterable of splits. Every row must be tested exactly once. Not read without ``y``.
        embed_dims: widths of the categorical columns: ``"auto"`` (``min(n − 1, 8, round(1.6 · n^0.56))`` of
            ``n`` categories), a number for all of them, or a dict for some.
        hidden_layer_sizes: widths of the hidden layers; the last is the width of ``"row"``, which without
            ``y`` is 64 wide whatever they are.
        dropout: share of hidden units that is dropped in training.
        unknown_dropout: share of ids that counts as unknown in training, so that the unknown
            category has a trained vector too.
        shrinkage: rows that weigh as much as the unknown category: while it is learned, the vector of a
            category of ``n`` rows is ``n / (n + shrinkage)`` its own and else the unknown category's, which
            so learns what rare categories have in common. 0 leaves every category to itself.
        alpha: weight decay.
        averaging: vectors are made from a running mean of the weights; this is the share of it that a step
            leaves. 0 takes the last weights.
        max_iter: largest number of passes over the rows (epochs).
        batch_size: rows in a minibatch; ``"auto"`` makes about 128 steps a pass, of 16 to 1024 rows.
        learning_rate_init: largest learning rate; it rises to this, then falls to zero.
        validation_fraction: share of the rows that is held out to stop early; 0 never stops early.
        n_iter_no_change: passes without a better loss on the held-out rows before it stops.
        device: ``"auto"`` (a GPU if there is one), or a device of PyTorch.
        random_state: everything random follows from it; global generators are not touched.
        verbose: 1 shows progress bars.

    Attributes:
        encoder_: the fitted ``TableEncoder``.
        network_: the trained ``TableNetwork``.
        target_type_: the target type in use, ``"masked_columns"`` without ``y``.
        classes_: the classes, ``None`` for numbers.
        n_iter_: passes that were made.
        validation_losses_: loss on the held-out rows before training and after every pass; the
            pass with the smallest is kept, and the folds of ``fit_transform`` make as many passes.
        n_features_in_: number of columns of the table.
        feature_names_in_: their names, where they had any.

    Raises: ValueError when an argument or ``y`` breaks its rule, with its name in the message, and without
        ``y`` for a table in which no column can be predicted from another.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"city": ["Rome", "Oslo"] * 20, "rooms": range(40)})
    >>> embedder = TableEmbedder(cv=2, random_state=0)
    >>> embedder.fit_transform(X, X["city"] == "Rome").shape
    (40, 18)
    >>> embedder.get_feature_names_out()[:3].tolist()
    ['city_e0', 'rooms', 'row_e0']
    """

    _encoder_class = TableEncoder
    _network_class = staticmethod(table_network)

    def __init__(
        self,
        encoder: TableEncoder | None = None,
        numeric: Any = None,
        *,
        time: Any = None,
        output: str = "both",
        target_type: str = "auto",
        cv: Any = 5,
        embed_dims: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (128, 16),
        dropout: float = 0.1,
        unknown_dropout: float = 0.02,
        shrinkage: float = 10.0,
        alpha: float = 0.1,
        averaging: float = 0.99,
        max_iter: int = 20,
        batch_size: int | str = "auto",
        learning_rate_init: float = 0.003,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 6,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.numeric = numeric
        self.time = time
        self.output = output
        self.target_type = target_type
        self.cv = cv
        self.embed_dims = embed_dims
        self.hidden_layer_sizes = hidden_layer_sizes
        self.dropout = dropout
        self.unknown_dropout = unknown_dropout
        self.shrinkage = shrinkage
        self.alpha = alpha
        self.averaging = averaging
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> TableEmbedder:
        """Train on all rows.

        Args:
            X: a table: pandas, polars, pyarrow, a dict of columns, or a 2-D array.
            y: the target, one value a row; ``None`` learns from the table alone.
        """
        self._fit(X, y, out_of_fold=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Train on all rows and on every fold's; give each row the vectors of the fold without it.

        Args:
            X: a table, as in ``fit``.
            y: the target, one value a row. ``None`` learns from the table alone, without folds.

        Shape:
            - output: ``(n_rows, len(get_feature_names_out()))`` float32
        """
        return self._fit(X, y, out_of_fold=True)

    @own_modes()
    def transform(self, X: Any) -> Any:
        """Give every row its vectors.

        Args:
            X: a table with the columns of the fit; an array is taken by position.

        Shape:
            - output: ``(n_rows, len(get_feature_names_out()))`` float32
        """
        check_is_fitted(self)
        batch = self.encoder_.transform(check_table(self, X, reset=False))
        seen = len(batch) == self.encoder_.schema_.n_rows and self.target_type_ != "masked_columns"
        if seen and fingerprint(batch) == self._fingerprint:
            warn_of_fit(self, "table")
        return vectors(self.network_, batch, self.output, verbose=self.verbose)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the vectors' entries: ``city_e0``, … for categories, ``row_e0``, … for rows, and
        a number's own name; all different.

        Args:
            input_features: ignored, but checked: the names of the fit, or ``None``.
        """
        check_is_fitted(self)
        check_names(self, input_features)
        check_output(self.output)
        columns = self.network_.column_names()
        rows = [f"row_e{i}" for i in range(self.network_.row_dim)]
        while set(columns) & set(rows):
            rows = [name + "_" for name in rows]
        return np.array({"columns": columns, "row": rows, "both": columns + rows}[self.output], dtype=object)

    @own_modes()
    def _fit(self, X: Any, y: Any, *, out_of_fold: bool) -> Any:
        check_output(self.output)
        settings = Settings.of(self)
        X = check_table(self, X, reset=True)
        encoder = clone(TableEncoder() if self.encoder is None else self.encoder).fit(X)
        encoder = single_rows_unknown(encoder)
        batch = encoder.transform(X)
        alone = y is None
        if alone:
            objective, target = make_masked_columns(encoder.schema_, batch)
        else:
            y = check_target(y, len(batch))
            objective, target = make_objective(y, self.target_type)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        # Before the long work, so that a wrong cv is known at once.
        classes = objective.classes is not None
        splits = make_splits(self.cv, X, y, classes=classes, seed=seed) if out_of_fold and not alone else []
        architecture = {"masked": alone, **self._architecture(encoder.schema_, objective.n_outputs)}
        schema = encoder.schema_
        initial = table_network(schema, **architecture, seed=seed)
        network, losses, out_of_fold_vectors = fit_with_folds(
            initial,
            batch,
            target,
            objective,
            settings,
            splits=splits,
            seed=seed,
            vectors=partial(vectors, output=self.output, verbose=self.verbose),
            aligned=aligned_parts(initial, self.output),
        )
        if isinstance(network, MaskedNetwork):
            network.settle(batch)
        self._set_fitted(encoder, network, architecture, objective=objective, losses=losses)
        self._fingerprint = fingerprint(batch)
        given = [name for name in MAKERS if getattr(self, name) is not None]
        if given and self.output == "columns" and not (schema.categorical or schema.lists):
            warn_user(
                f"{' and '.join(given)} cannot change output='columns' of a table without categories: it is "
                "the scaled numbers themselves. What the network makes of them is in output='row'"
            )
        # No target that vectors could have seen: those of the fit are as good as any.
        if not (out_of_fold and alone):
            return out_of_fold_vectors
        return vectors(network, batch, self.output, verbose=self.verbose)

    def _architecture(self, schema: TableSchema, n_outputs: int) -> dict[str, Any]:
        names = ("hidden_layer_sizes", "dropout", "unknown_dropout", "shrinkage")
        numeric = PiecewiseLinearEmbedding.from_columns if self.numeric is None else self.numeric
        embedding = {"embed_dims": self._dims(schema), "numeric": numeric, "time": self.time}
        return {"n_outputs": n_outputs, **{n: getattr(self, n) for n in names}, "embedding": embedding}

    def _dims(self, schema: TableSchema) -> Any:
        if isinstance(self.embed_dims, int | str) and self.embed_dims != "auto":
            return self.embed_dims
        given = self.embed_dims if isinstance(self.embed_dims, Mapping) else {}
        return {name: min(dim, MAX_DIM) for name, dim in table_dims(schema, "auto").items()} | dict(given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags
