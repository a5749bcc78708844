"""A scikit-learn transformer that learns the vectors of rows in time: of each row and its entity's past."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tabembed._checks import check_choice
from tabembed.estimators.fingerprint import fingerprint, warn_of_fit
from tabembed.estimators.learned_tables import LearnedTables
from tabembed.estimators.saved_embedder import SavedEmbedder
from tabembed.estimators.sequence_checks import check_by_time, check_whole
from tabembed.estimators.sequence_folds import check_labelled, entity_splits
from tabembed.estimators.sequence_target import in_key_order, sequence_target
from tabembed.estimators.sequence_tasks import EarlierRows, TaskMaker
from tabembed.estimators.tables import check_names, check_table, column_names, gives_pandas
from tabembed.sequence import SequenceBatch, SequenceEncoder
from tabembed.table.warn import said_once, warn_user
from tabembed.training.crossfit import passes_kept
from tabembed.training.modes import own_modes
from tabembed.training.network import MAKERS
from tabembed.training.sequence_examples import SequenceSettings
from tabembed.training.sequence_fit import fit_sequences
from tabembed.training.sequence_network import PER, SequenceNetwork
from tabembed.training.sequence_vectors import in_input_order, sequence_vectors
from tabembed.training.time_blocks import fit_time_blocks


class SequenceEmbedder(TransformerMixin, LearnedTables, SavedEmbedder):
    """Learn a vector for every row of a table of events, made of that row and of its entity's past.

    A row's vector is made of its own columns, except for those that are ``observed`` only after it, and of
    everything that its entity did before. The entity itself is not looked at, so entities that the fit
    has not seen are nothing special. **History is what stands in the table that is given**: to give new
    rows their past, hand it over with them and take the rows that you want::

        embedder.transform(pd.concat([past, new]))[len(past):]

    ``fit_transform`` gives every training row vectors from a network that was not trained on its entity
    (out-of-fold), so a model that is trained on them is not fooled; ``transform`` uses the network of all
    rows. So ``fit(X, y).transform(X)`` differs from ``fit_transform(X, y)`` on purpose, and warns.

    Args:
        encoder: a ``SequenceEncoder``, which says whose rows they are, when they happened, and which columns
            are known only afterwards. Its ``max_events`` must be ``None`` unless vectors and ``y`` are of
            entities: it counts from the end of the table, so a row's past would tell how many rows follow.
        position: how a row sees where the others stand: ``"rotary"``, ``"alibi"``, ``"decay"``,
            ``"sinusoidal"``, ``"learned"``, ``None``, or ``"gru"`` for a recurrence instead of attention.
        clock: whether places are the ``"time"`` of the rows or their number, ``"index"``.
        output: what ``transform`` and ``fit_transform`` return: ``"row"``, one vector a row of the table, in
            its order; ``"entity"``, one an entity, sorted by the entities' keys, which ``set_output`` of
            pandas gives as the index. Read when they are called: changing it needs no new fit.
        pooling: what makes an entity's vector from those of its rows: ``"last"``, ``"mean"``, or ``"decay"``,
            a mean that forgets with time.
        numeric: makes the module of the continuous columns, as in ``TableEmbedder``.
        time: makes the module of the datetime columns, as in ``TableEmbedder``.
        target_type: ``"continuous"``, ``"binary"``, ``"multiclass"``, or ``"auto"``: two distinct
            values are binary; text, booleans and integers of at most 50 distinct values are
            classes; the rest are numbers.
        cv: how ``fit_transform`` gives rows vectors of networks that were not trained on them:

            - a number: so many shuffled folds of entities.
            - a splitter that keeps the rows of an entity together, such as ``GroupKFold`` (it is given the
              entities as ``groups``), or an iterable of splits of rows.
            - ``"time"``: five blocks of rows in the order of time. Each is encoded, with its past, by a
              network and an encoder fitted on the blocks before. The first block has none before it: its
              vectors come from a network that nothing has taught, and a warning counts them. So do those
              of blocks before which there is nothing to learn from.

            Networks that are trained apart lay out the same vectors differently: those of a fold or block
            are mapped to where the full fit puts the rows that both were trained on. With ``"time"`` the map,
            the number of passes, the type of the target and where blocks begin follow from all rows; nothing
            else of later rows has a part.
        d_model: width of a vector.
        num_layers: number of layers.
        embed_dims: widths of the categorical columns: ``"auto"``, a number for all of them, or a
            dict for some.
        dropout: share of units that is dropped in training.
        unknown_dropout: share of ids that counts as unknown in training, so that the unknown
            category has a trained vector too.
        alpha: weight decay.
        max_iter: largest number of passes over the rows (epochs).
        batch_size: most rows in a minibatch of whole sequences; ``"auto"`` makes about 128 steps a pass, of
            32 to 2048 rows. A longer sequence comes alone.
        max_length: longest sequence in training: longer ones are cut into pieces, or, where ``y`` has one
            value an entity, to their last rows. ``transform`` cuts nothing.
        learning_rate_init: largest learning rate; it rises to this, then falls to zero.
        validation_fraction: share of the entities that is held out to stop early; 0 never stops early, nor
            does a fit whose held-out entities have no ``y``.
        n_iter_no_change: passes without a better loss on the held-out entities before it stops.
        device: ``"auto"`` (a GPU if there is one), or a device of PyTorch.
        random_state: everything random follows from it; global generators are not touched.
        verbose: 1 shows progress bars.

    Attributes:
        encoder_: the fitted ``SequenceEncoder``.
        network_: the trained ``SequenceNetwork``.
        target_type_: the target type in use, ``"next_row"`` without ``y``.
        classes_: the classes, ``None`` for numbers.
        n_iter_: passes that were made.
        validation_losses_: loss on the held-out entities before training and after every pass; the
            pass with the smallest is kept, and the folds of ``fit_transform`` make as many passes.
        untrained_: after ``fit_transform`` with ``cv="time"`` alone, and never saved: True for the rows, in
            the order of the table, whose vectors come from a network that nothing has taught.
        n_features_in_: number of columns of the table.
        feature_names_in_: their names.

    Raises:
        ValueError: when an argument or ``y`` breaks its rule, with its name in the message.
        TypeError: when ``X`` has no names, such as an array.

    >>> import pandas as pd
    >>> days = [i // 4 for i in range(24)]
    >>> X = pd.DataFrame({"who": ["a", "b", "c", "d"] * 6, "day": days, "paid": range(24)})
    >>> encoder = SequenceEncoder("who", "day", observed=["paid"], unit="D")
    >>> embedder = SequenceEmbedder(encoder, d_model=16, num_layers=1, cv=2, max_iter=2, random_state=0)
    >>> embedder.fit_transform(X, X["paid"] % 3 == 0).shape
    (24, 16)
    >>> new = pd.DataFrame({"who": ["a", "e"], "day": 6, "paid": None})
    >>> embedder.transform(pd.concat([X, new]))[len(X):].shape
    (2, 16)
    """

    _encoder_class = SequenceEncoder
    _network_class = SequenceNetwork

    def __init__(
        self,
        encoder: SequenceEncoder,
        *,
        position: str | None = "rotary",
        clock: str = "time",
        output: str = "row",
        pooling: str = "last",
        numeric: Any = None,
        time: Any = None,
        target_type: str = "auto",
        cv: Any = 5,
        d_model: int = 64,
        num_layers: int = 2,
        embed_dims: Any = "auto",
        dropout: float = 0.1,
        unknown_dropout: float = 0.02,
        alpha: float = 0.01,
        max_iter: int = 8,
        batch_size: int | str = "auto",
        max_length: int = 512,
        learning_rate_init: float = 0.002,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 4,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.position = position
        self.clock = clock
        self.output = output
        self.pooling = pooling
        self.numeric = numeric
        self.time = time
        self.target_type = target_type
        self.cv = cv
        self.d_model = d_model
        self.num_layers = num_layers
        self.embed_dims = embed_dims
        self.dropout = dropout
        self.unknown_dropout = unknown_dropout
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.max_length = max_length
        self.learning_rate_init = learning_rate_init
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> SequenceEmbedder:
        """Train on all rows.

        Args:
            X: a table with named columns: pandas, polars, pyarrow, or a dict of columns.
            y: the target: one value a row by position (an array, a list, a series of as many values), or one
                an entity (a dict, or a pandas series of another length that is indexed by the entities).
                ``None`` learns to predict what comes to light next: the row's observed columns, and the
                entity's next row and when it comes. A row's value may be missing (NaN, None): then the row
                is history of those after it, and no target. Values of rows that the encoder leaves out are
                not read; of rows that it merges, the last one's is.
        """
        self._fit(X, y, out_of_fold=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Train on all rows and on every fold's; give each row the vectors of the fold without its entity.

        Args:
            X: a table, as in ``fit``.
            y: the target, as in ``fit``.

        Shape:
            - output: ``(n_rows or n_entities, d_model)`` float32; with ``output="entity"`` in the order of
              the sorted entities, whatever the order of ``y`` is
        """
        return self._fit(X, y, out_of_fold=True)

    @own_modes()
    def transform(self, X: Any) -> Any:
        """Give every row its vector, or every entity its own.

        Args:
            X: a table with the columns of the fit. A row's history is what the table holds of its entity:
                ``embedder.transform(pd.concat([past, new]))[len(past):]`` gives new rows their past.

        Shape:
            - output: ``(n_rows or n_entities, d_model)`` float32; NaN, with a warning that counts them,
              for rows that the encoder leaves out
        """
        check_is_fitted(self)
        check_choice(PER, output=self.output)
        check_whole(self.encoder_, self.output, self.output)
        X = _check_frame(self, X, reset=False)
        with said_once():
            batch = self.encoder_.transform(X)
        if fingerprint(batch) == self._fingerprint:
            warn_of_fit(self, "table")
        vectors = sequence_vectors(self.network_, batch, self.output, verbose=self.verbose)
        return self._laid_out(vectors, batch)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the vectors' entries: ``row_e0``, … or ``entity_e0``, …

        Args:
            input_features: ignored, but checked: the names of the fit, or ``None``.
        """
        check_is_fitted(self)
        check_names(self, input_features)
        check_choice(PER, output=self.output)
        return np.array([f"{self.output}_e{i}" for i in range(self.network_.row_dim)], dtype=object)

    @own_modes()
    def _fit(self, X: Any, y: Any, *, out_of_fold: bool) -> Any:
        check_choice(PER, output=self.output)
        if not isinstance(self.encoder, SequenceEncoder):
            raise TypeError(f"encoder must be a SequenceEncoder, got {type(self.encoder).__name__}")
        settings: Any = SequenceSettings.of(self)
        X = _check_frame(self, X, reset=True)
        with said_once():
            encoder = clone(self.encoder).fit(X)
            batch = encoder.transform(X)
        given = None if y is None else sequence_target(y, batch)
        per = "row" if given is None else given.per
        check_whole(encoder, per, self.output)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        make_task = TaskMaker(self._architecture(), self.target_type, seed)
        task, built = make_task(encoder, batch, given)
        # Before the long work, so that a wrong cv is known at once.
        classes, by_time = task.objective.classes, isinstance(self.cv, str) and self.cv == "time"
        splits: list[Any] = []
        if out_of_fold and by_time:
            check_by_time(per, self.output)
            if given is not None:  # the earliest rows alone may look like a target of another type
                make_task = replace(make_task, target_type=task.objective.target_type)
            rows = EarlierRows(encoder, X, batch=batch, given=given, make_task=make_task)
            blocks = rows.blocks()
        elif out_of_fold:
            splits = entity_splits(self.cv, batch, given, classes=classes is not None, seed=seed)
            check_labelled(splits, batch, given)
        if given is not None and not given.labelled.all():
            warn_user(
                f"y is missing in {(~given.labelled).sum():,} of {batch.n_rows:,} rows: they are history of "
                "the rows after them, and no target"
            )
        if out_of_fold and self.output == "entity" and not in_key_order(y, batch):
            warn_user(
                "fit_transform gives vectors in the order of the sorted entities, and y is in another: what "
                "takes them side by side needs y in that order, too, as y.sort_index() has it"
            )
        network, losses, vectors = fit_sequences(task, settings, splits=splits, seed=seed, output=self.output)
        self._set_fitted(encoder, network, built, objective=task.objective, losses=losses)
        self._fingerprint = fingerprint(batch)
        self.__dict__.pop("untrained_", None)
        if not out_of_fold:
            return None
        if not by_time:
            return self._laid_out(vectors, batch)
        self.untrained_ = blocks == 0
        warn_user(
            f"cv='time' has no earlier rows to learn from for the first {self.untrained_.sum():,} of "
            f"{(blocks >= 0).sum():,} rows in time: their vectors come from an untrained network. A model "
            "that is trained on the vectors may leave these rows out: untrained_ says which"
        )
        passes = passes_kept(losses, settings)
        return _count_missing(
            fit_time_blocks(network, batch, blocks, settings, rows=rows, n_passes=passes, seed=seed)
        )

    def _architecture(self) -> dict[str, Any]:
        own = ("position", "clock", "d_model", "num_layers", "pooling", "dropout")
        sequence = {name: getattr(self, name) for name in own}
        return {
            **sequence,
            "embedding": {name: getattr(self, name) for name in ("embed_dims", "unknown_dropout", *MAKERS)},
        }

    def _laid_out(self, vectors: Any, batch: SequenceBatch) -> Any:
        """Vectors in the order of the table, or with the entities beside them where the result is a frame."""
        if self.output == "row":
            return _count_missing(in_input_order(vectors, batch))
        if gives_pandas(self):
            return pd.DataFrame(vectors, index=pd.Index(batch.entities, name=self.encoder_.entity))
        return vectors

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # an array does not name its entity and its time
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _check_frame(embedder: SequenceEmbedder, X: Any, *, reset: bool) -> Any:
    if column_names(X) is None:
        raise TypeError(
            f"X must be a table with named columns, got {type(X).__name__}: an array does not say which "
            "column is the entity and which the time"
        )
    return check_table(embedder, X, reset=reset)


def _count_missing(vectors: np.ndarray) -> np.ndarray:
    """The same; a warning counts the rows without a vector."""
    missing = int(np.isnan(vectors).all(1).sum())
    if missing:
        warn_user(
            f"SequenceEmbedder gives no vector (NaN) to {missing:,} of {len(vectors):,} rows, which its "
            "encoder leaves out"
        )
    return vectors
