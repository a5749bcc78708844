"""Widths of embedding tables."""

from __future__ import annotations

from collections.abc import Mapping

from tabembed._checks import check_integer
from tabembed.schema import TableSchema


def embedding_dim(num_categories: int) -> int:
    """Width of a table by the rule of fastai: ``min(600, round(1.6 · n^0.56))``.

    Source: Howard & Gugger 2020, arXiv:2002.04688.

    >>> [embedding_dim(n) for n in (1, 10, 1000, 10**6)]
    [2, 6, 77, 600]
    """
    return min(600, round(1.6 * num_categories**0.56))


def known_dim(n_known: int) -> int:
    """Width of a column with ``n`` known values: ``min(n − 1, 600, round(1.6 · n^0.56))``, at least 1.

    >>> [known_dim(n) for n in (0, 1, 2, 4, 1000)]
    [1, 1, 1, 3, 77]
    """
    return max(1, min(n_known - 1, embedding_dim(n_known)))


def table_dims(schema: TableSchema, embed_dims: str | int | Mapping[str, int]) -> dict[str, int]:
    """Width of every categorical and list column, by name; see ``TableEmbedding``.

    Raises: ValueError for a width below 1, a word other than ``"auto"``, or a column without a table.
    """
    columns = (*schema.categorical, *schema.lists)
    dims = {column.name: known_dim(column.n_known) for column in columns}
    if isinstance(embed_dims, str):
        if embed_dims != "auto":
            raise ValueError(f"embed_dims must be 'auto', a number or widths by name, got {embed_dims!r}")
        return dims
    given = embed_dims if isinstance(embed_dims, Mapping) else dict.fromkeys(dims, embed_dims)
    for name, dim in given.items():
        if name not in dims:
            raise ValueError(f"embed_dims must name categorical or list columns {list(dims)}, got {name!r}")
        check_integer(**{f"embed_dims[{name!r}]": dim})
    return {**dims, **given}
