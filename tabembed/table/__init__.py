"""Tables to tensors: specs of columns and the encoder that follows them."""

from tabembed.table.category import Categorical
from tabembed.table.datetime import Datetime
from tabembed.table.encoder import TableEncoder
from tabembed.table.lists import CategoricalList
from tabembed.table.loader import ParquetBatches
from tabembed.table.number import Continuous
from tabembed.table.report import DriftReport, describe

__all__ = [
    "Categorical",
    "CategoricalList",
    "Continuous",
    "Datetime",
    "DriftReport",
    "ParquetBatches",
    "TableEncoder",
    "describe",
]
