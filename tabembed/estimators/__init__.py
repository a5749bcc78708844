"""scikit-learn estimators."""

from tabembed.estimators.table_embedder import TableEmbedder

__all__ = ["TableEmbedder"]
