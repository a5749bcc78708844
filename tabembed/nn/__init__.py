"""Modules that turn the tensors of a table into vectors."""

from __future__ import annotations

from tabembed.nn.conditioning import AdaLayerNorm, FiLM
from tabembed.nn.dropout import Dropout, UnknownDropout
from tabembed.nn.entity import EntityEmbedding
from tabembed.nn.gaussian_fourier import GaussianFourierProjection
from tabembed.nn.linear import LinearEmbedding
from tabembed.nn.lists import ListEmbedding
from tabembed.nn.multi_categorical import MultiCategoricalEmbedding
from tabembed.nn.per_column import PerColumn
from tabembed.nn.table import TableEmbedding
from tabembed.nn.time import TimeEmbedding
from tabembed.nn.timestep import TimestepFeatures
from tabembed.nn.timestep_embedding import TimestepEmbedding

__all__ = [
    "AdaLayerNorm",
    "Dropout",
    "EntityEmbedding",
    "FiLM",
    "GaussianFourierProjection",
    "LinearEmbedding",
    "ListEmbedding",
    "MultiCategoricalEmbedding",
    "PerColumn",
    "TableEmbedding",
    "TimeEmbedding",
    "TimestepEmbedding",
    "TimestepFeatures",
    "UnknownDropout",
]
