"""tabembed turns tables into tensors and learned encodings."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "TableEncoder": "tabembed.table",
    "Categorical": "tabembed.table",
    "Continuous": "tabembed.table",
    "Datetime": "tabembed.table",
    "CategoricalList": "tabembed.table",
    "ParquetBatches": "tabembed.table",
    "SequenceEncoder": "tabembed.sequence",
    "TableEmbedder": "tabembed.estimators",
    "SequenceEmbedder": "tabembed.estimators",
    "CyclicTransformer": "tabembed.estimators",
    "GaussianFourierTransformer": "tabembed.estimators",
    "LearnedFourierTransformer": "tabembed.estimators",
    "RandomFourierTransformer": "tabembed.estimators",
    "EntityEmbedding": "tabembed.nn",
    "MultiCategoricalEmbedding": "tabembed.nn",
    "LinearEmbedding": "tabembed.nn",
    "PeriodicEmbedding": "tabembed.nn",
    "PiecewiseLinearEmbedding": "tabembed.nn",
    "quantile_edges": "tabembed.functional.piecewise",
    "tree_edges": "tabembed.training.bins",
    "load_pretrained": "tabembed.training.pretrained",
    "GaussianFourierProjection": "tabembed.nn",
    "LearnedFourierFeatures": "tabembed.nn",
    "CyclicEmbedding": "tabembed.nn",
    "TimestampEmbedding": "tabembed.nn",
    "FrequencyEmbedding": "tabembed.nn",
    "TableEmbedding": "tabembed.nn",
    "SequenceEmbedding": "tabembed.nn",
    "TimeEmbedding": "tabembed.nn",
    "TimestepFeatures": "tabembed.nn",
    "TimestepEmbedding": "tabembed.nn",
    "FiLM": "tabembed.nn",
    "AdaLayerNorm": "tabembed.nn",
    "coverage": "tabembed.nn",
    "calibrate": "tabembed.nn",
    "RandomFourierFeatures": "tabembed.nn",
    "RotaryEmbedding": "tabembed.nn",
    "ALiBiEmbedding": "tabembed.nn",
    "SinusoidalEmbedding": "tabembed.nn",
    "LearnedPositionalEmbedding": "tabembed.nn",
    "TokenEmbedding": "tabembed.nn",
    "TemporalPositionEncoder": "tabembed.nn",
    "RelativeDecay": "tabembed.nn",
    "attention": "tabembed.nn",
    "convert_layout": "tabembed.nn",
    "decay": "tabembed.nn.elapsed",
    "frequencies_from_periods": "tabembed.functional.periods",
    "row_positions": "tabembed.functional.position",
    "use_backend": "tabembed.kernels",
    "TableBatch": "tabembed.batch",
    "SequenceBatch": "tabembed.sequence",
    "check_no_leak": "tabembed.sequence",
    "SequenceSchema": "tabembed.schema",
    "TableSchema": "tabembed.schema",
    "ArtifactError": "tabembed.artifact",
}
_SAVED = ("TableEncoder", "SequenceEncoder", "TableEmbedder", "SequenceEmbedder")
_ROOMS = ("plot", "distributed")

__all__ = [*_HOMES, "load"]

if TYPE_CHECKING:
    from tabembed.artifact import ArtifactError as ArtifactError
    from tabembed.batch import TableBatch as TableBatch
    from tabembed.estimators import CyclicTransformer as CyclicTransformer
    from tabembed.estimators import GaussianFourierTransformer as GaussianFourierTransformer
    from tabembed.estimators import LearnedFourierTransformer as LearnedFourierTransformer
    from tabembed.estimators import RandomFourierTransformer as RandomFourierTransformer
    from tabembed.estimators import SequenceEmbedder as SequenceEmbedder
    from tabembed.estimators import TableEmbedder as TableEmbedder
    from tabembed.functional.periods import frequencies_from_periods as frequencies_from_periods
    from tabembed.functional.piecewise import quantile_edges as quantile_edges
    from tabembed.functional.position import row_positions as row_positions
    from tabembed.kernels import use_backend as use_backend
    from tabembed.nn import AdaLayerNorm as AdaLayerNorm
    from tabembed.nn import ALiBiEmbedding as ALiBiEmbedding
    from tabembed.nn import CyclicEmbedding as CyclicEmbedding
    from tabembed.nn import EntityEmbedding as EntityEmbedding
    from tabembed.nn import FiLM as FiLM
    from tabembed.nn import FrequencyEmbedding as FrequencyEmbedding
    from tabembed.nn import GaussianFourierProjection as GaussianFourierProjection
    from tabembed.nn import LearnedFourierFeatures as LearnedFourierFeatures
    from tabembed.nn import LearnedPositionalEmbedding as LearnedPositionalEmbedding
    from tabembed.nn import LinearEmbedding as LinearEmbedding
    from tabembed.nn import MultiCategoricalEmbedding as MultiCategoricalEmbedding
    from tabembed.nn import PeriodicEmbedding as PeriodicEmbedding
    from tabembed.nn import PiecewiseLinearEmbedding as PiecewiseLinearEmbedding
    from tabembed.nn import RandomFourierFeatures as RandomFourierFeatures
    from tabembed.nn import RelativeDecay as RelativeDecay
    from tabembed.nn import RotaryEmbedding as RotaryEmbedding
    from tabembed.nn import SequenceEmbedding as SequenceEmbedding
    from tabembed.nn import SinusoidalEmbedding as SinusoidalEmbedding
    from tabembed.nn import TableEmbedding as TableEmbedding
    from tabembed.nn import TemporalPositionEncoder as TemporalPositionEncoder
    from tabembed.nn import TimeEmbedding as TimeEmbedding
    from tabembed.nn import TimestampEmbedding as TimestampEmbedding
    from tabembed.nn import TimestepEmbedding as TimestepEmbedding
    from tabembed.nn import TimestepFeatures as TimestepFeatures
    from tabembed.nn import TokenEmbedding as TokenEmbedding
    from tabembed.nn import attention as attention
    from tabembed.nn import calibrate as calibrate
    from tabembed.nn import convert_layout as convert_layout
    from tabembed.nn import coverage as coverage
    from tabembed.nn.elapsed import decay as decay
    from tabembed.schema import SequenceSchema as SequenceSchema
    from tabembed.schema import TableSchema as TableSchema
    from tabembed.sequence import SequenceBatch as SequenceBatch
    from tabembed.sequence import SequenceEncoder as SequenceEncoder
    from tabembed.sequence import check_no_leak as check_no_leak
    from tabembed.table import Categorical as Categorical
    from tabembed.table import CategoricalList as CategoricalList
    from tabembed.table import Continuous as Continuous
    from tabembed.table import Datetime as Datetime
    from tabembed.table import ParquetBatches as ParquetBatches
    from tabembed.table import TableEncoder as TableEncoder
    from tabembed.training.bins import tree_edges as tree_edges
    from tabembed.training.pretrained import load_pretrained as load_pretrained


def __getattr__(name: str) -> Any:
    if name in _ROOMS:  # rooms of their own, so that they are there without being imported
        return import_module(f"tabembed.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tabembed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_ROOMS])


def load(path: Any) -> Any:
    """Read a saved encoder or embedder, of a table or of sequences: whichever the folder holds.

    Args:
        path: folder written by ``save``.

    Raises: ArtifactError when the folder is not a complete model that this version can read.
    """
    from tabembed import artifact

    return artifact.load(path, {name: partial(_build, name) for name in _SAVED})


def _build(name: str, config: dict, arrays: dict) -> Any:
    return __getattr__(name).from_artifact(config, arrays)
