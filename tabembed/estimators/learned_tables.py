"""What people do with the tables of vectors inside a fitted embedder: read, ask, replace, grow."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from tabembed._checks import check_choice
from tabembed.estimators.nearest import nearest_rows
from tabembed.schema import FIRST_KNOWN, UNKNOWN
from tabembed.table.in_html import ColumnsInHtml
from tabembed.table.lookup import column_with_ids, ids_of
from tabembed.training.modes import own_modes
from tabembed.training.pretrained import PretrainedReport, load_pretrained


class LearnedTables(ColumnsInHtml):
    """Methods of an embedder whose network has a table of vectors for every column of categories."""

    encoder_: Any
    network_: Any
    _built: dict[str, Any]

    def embedding_table(self, column: str) -> pd.DataFrame:
        """The learned vectors of a column as a frame, one id a row.

        Args:
            column: name of a categorical column or a column of lists.

        Returns: frame with ``category``, ``count`` (in the rows of the fit), ``kind`` (``known``,
            ``unknown``, ``missing``, ``padding``), ``e0``, ``e1``, …

        Raises: ValueError when there is no such column.

        >>> from tabembed import TableEmbedder
        >>> X = pd.DataFrame({"city": ["Rome", "Oslo", "Rome", "Bergen"] * 20})
        >>> embedder = TableEmbedder(max_iter=1, random_state=0).fit(X, X["city"] != "Rome")
        >>> embedder.embedding_table("city")[["category", "count", "kind"]].tail(3)
          category  count   kind
        3     Rome     40  known
        4   Bergen     20  known
        5     Oslo     20  known
        """
        check_is_fitted(self)
        fitted = column_with_ids(self._table_encoder, column)
        weight = self.network_.embedding.weight(column).detach().cpu().numpy()
        known = list(fitted.vocabulary.as_objects())
        table = pd.DataFrame(
            {
                "category": pd.Series([None] * FIRST_KNOWN + known, dtype=object),
                "count": np.array(fitted.column.counts, dtype=np.int64),
                "kind": ["padding", "missing", "unknown"] + ["known"] * len(known),
            }
        )
        names = [f"e{i}" for i in range(weight.shape[1])]
        return pd.concat([table, pd.DataFrame(weight, columns=names)], axis=1)

    def nearest(
        self, column: str, value: Any, k: int = 10, *, metric: str = "cosine", on_unknown: str = "error"
    ) -> pd.DataFrame:
        """The categories whose vectors lie closest to the vector of one.

        Args:
            column: name of a categorical column or a column of lists.
            value: a category; ``None`` or NaN asks for the row of missing values.
            k: most categories to give.
            metric: ``"cosine"``: the angle between vectors alone; ``"euclidean"``: how far apart they are.
            on_unknown: what becomes of a value that is not known from the fit: ``"error"``, or ``"row"``,
                which asks for the row that all such values share.

        Returns: frame with ``category``, ``similarity`` (cosine, from 1 down) or ``distance`` (euclidean,
            from 0 up), ``count`` and ``kind``, the closest first. The value itself and padding are left out,
            and the row of missing values where the fit had none.

        Raises: ValueError when there is no such column, or the value is not known. TypeError for a value of
            another type than in the fit.

        >>> from tabembed import TableEmbedder
        >>> X = pd.DataFrame({"city": ["Rome", "Oslo", "Bergen"] * 60})
        >>> embedder = TableEmbedder(random_state=0).fit(X, X["city"] != "Rome")
        >>> embedder.nearest("city", "Oslo", k=1)[["category", "count", "kind"]]
          category  count   kind
        0   Bergen     60  known
        """
        check_choice(("error", "row"), on_unknown=on_unknown)
        table = self.embedding_table(column)
        row = int(ids_of(self._table_encoder, column, [value])[0])
        if row == UNKNOWN and on_unknown == "error":
            raise ValueError(
                f"column {column!r}: value must be known from the fit, got {value!r}; "
                "on_unknown='row' asks for the row that unknown values share"
            )
        return nearest_rows(table, row, k=k, metric=metric)

    def load_pretrained(self, frame: Any, column: str, *, rest: str = "unknown") -> PretrainedReport:
        """Put given vectors into the table of a column, in place, to serve them.

        The hidden layers stay as they are, and were trained on other vectors: what changes rightly is
        ``output="columns"`` alone. To train from given vectors, put them into a ``TableEmbedding`` by the
        function ``tabembed.load_pretrained``.

        Args:
            frame: a frame with a ``category`` column, as ``embedding_table`` gives it, a pandas frame that is
                indexed by the categories, or a dict from category to vector.
            column: name of a categorical column or a column of lists.
            rest: what becomes of rows that no vector is given for. ``"unknown"``: the unknown row gets the
                mean of the given vectors, the others that of the unknown row. ``"keep"``: they stay.

        Returns: a ``PretrainedReport`` of how much of the column they cover; print it.

        Raises: ValueError and TypeError as ``tabembed.load_pretrained``.

        >>> from tabembed import TableEmbedder
        >>> X = pd.DataFrame({"city": ["Rome", "Oslo", "Rome", "Bergen"] * 20})
        >>> embedder = TableEmbedder(max_iter=1, random_state=0).fit(X, X["city"] != "Rome")
        >>> print(embedder.load_pretrained({"Rome": [0.0, 1.0], "Oslo": [1.0, 0.0]}, "city", rest="keep"))
        city: 2 of 3 categories found, 75.0% of the rows; 1 keep their vectors
        """
        check_is_fitted(self)
        return load_pretrained(self.network_.embedding, self.encoder_, frame, column, rest=rest)

    @own_modes()
    def grow(self, categories: Mapping[str, Any]) -> Self:
        """A fitted embedder that knows more categories; this one stays as it is.

        They start with the vector of the unknown row, which is what their rows had so far: no vector of any
        row changes by growing. ``load_pretrained`` with ``rest="keep"`` gives them vectors of their own.

        Args:
            categories: values by the name of their column: lists, or whole columns of a new table. Missing
                ones and those that are known already are passed over.

        Raises: ValueError when a column has no categories. TypeError for values of another type than in the
            fit, and for what is no dict.

        >>> from tabembed import TableEmbedder
        >>> X = pd.DataFrame({"city": ["Rome", "Oslo", "Rome", "Bergen"] * 20})
        >>> embedder = TableEmbedder(max_iter=1, random_state=0).fit(X, X["city"] != "Rome")
        >>> embedder.grow({"city": ["Turin", "Oslo"]}).encoder_.categories_["city"].tolist()
        ['Rome', 'Bergen', 'Oslo', 'Turin']
        """
        check_is_fitted(self)
        embedder = copy.deepcopy(self)
        embedder.encoder_ = self.encoder_.grow(categories)
        embedder.network_.embedding.grow(embedder.encoder_.schema_)
        embedder.network_.schema = embedder.encoder_.schema_
        # Widths that follow from the number of categories would be others now.
        names = [] if self._table_encoder is None else self._table_encoder.categories_
        dims = {name: int(self.network_.embedding.weight(name).shape[1]) for name in names}
        embedder._built = with_dims(self._built, dims)
        return embedder

    def _columns_shown(self) -> pd.DataFrame | None:
        if not hasattr(self, "network_"):
            return None
        columns: pd.DataFrame | None = self.encoder_._columns_shown()
        if columns is not None:
            columns["width"] = columns["column"].map(self.network_.embedding.embedding_dims())
        return columns

    @property
    def _table_encoder(self) -> Any:
        """The encoder of the columns, of a table or of the rows of sequences; ``None`` without columns."""
        return getattr(self.encoder_, "table_encoder_", self.encoder_)


def with_dims(built: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
    """What a network was built with, its tables of given widths, wherever those stand.

    >>> with_dims({"n_outputs": 1, "sequence": {"embedding": {"embed_dims": "auto"}}}, {"city": 3})
    {'n_outputs': 1, 'sequence': {'embedding': {'embed_dims': {'city': 3}}}}
    """
    inner = {name: with_dims(value, dims) for name, value in built.items() if isinstance(value, Mapping)}
    own = {"embed_dims": dict(dims)} if "embed_dims" in built else {}
    return {**built, **inner, **own}
