"""Modules that turn the tensors of a table into vectors."""

from __future__ import annotations

from tabembed.nn.dropout import Dropout, UnknownDropout
from tabembed.nn.entity import EntityEmbedding
from tabembed.nn.linear import LinearEmbedding
from tabembed.nn.lists import ListEmbedding
from tabembed.nn.multi_categorical import MultiCategoricalEmbedding
from tabembed.nn.per_column import PerColumn
from tabembed.nn.table import TableEmbedding
from tabembed.nn.time import TimeEmbedding

__all__ = [
    "Dropout",
    "EntityEmbedding",
    "LinearEmbedding",
    "ListEmbedding",
    "MultiCategoricalEmbedding",
    "PerColumn",
    "TableEmbedding",
    "TimeEmbedding",
    "UnknownDropout",
]
