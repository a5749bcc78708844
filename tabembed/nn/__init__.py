"""Modules that turn the tensors of a table into vectors."""

from __future__ import annotations

from tabembed.nn.alibi import ALiBiEmbedding
from tabembed.nn.attention import attention
from tabembed.nn.calibration import Coverage, calibrate, coverage
from tabembed.nn.conditioning import AdaLayerNorm, FiLM
from tabembed.nn.cyclic import CyclicEmbedding
from tabembed.nn.decay import RelativeDecay
from tabembed.nn.dropout import Dropout, UnknownDropout
from tabembed.nn.entity import EntityEmbedding
from tabembed.nn.frequency import FrequencyEmbedding
from tabembed.nn.gaussian_fourier import GaussianFourierProjection
from tabembed.nn.learned_fourier import LearnedFourierFeatures
from tabembed.nn.learned_position import LearnedPositionalEmbedding
from tabembed.nn.linear import LinearEmbedding
from tabembed.nn.lists import ListEmbedding
from tabembed.nn.multi_categorical import MultiCategoricalEmbedding
from tabembed.nn.per_column import PerColumn
from tabembed.nn.periodic import PeriodicEmbedding
from tabembed.nn.piecewise import PiecewiseLinearEmbedding
from tabembed.nn.random_fourier import RandomFourierFeatures
from tabembed.nn.rotary import RotaryEmbedding
from tabembed.nn.rotary_layout import convert_layout
from tabembed.nn.sequence import SequenceEmbedding
from tabembed.nn.sequence_state import SequenceState
from tabembed.nn.sinusoidal import SinusoidalEmbedding
from tabembed.nn.table import TableEmbedding
from tabembed.nn.temporal_position import TemporalPositionEncoder
from tabembed.nn.time import TimeEmbedding
from tabembed.nn.time_columns import TimeColumns
from tabembed.nn.timestamp import TimestampEmbedding
from tabembed.nn.timestep import TimestepFeatures
from tabembed.nn.timestep_embedding import TimestepEmbedding
from tabembed.nn.token import TokenEmbedding

__all__ = [
    "AdaLayerNorm",
    "CyclicEmbedding",
    "Coverage",
    "Dropout",
    "EntityEmbedding",
    "FiLM",
    "FrequencyEmbedding",
    "GaussianFourierProjection",
    "LearnedFourierFeatures",
    "LinearEmbedding",
    "ListEmbedding",
    "MultiCategoricalEmbedding",
    "PerColumn",
    "RandomFourierFeatures",
    "PeriodicEmbedding",
    "PiecewiseLinearEmbedding",
    "TableEmbedding",
    "TimeColumns",
    "TimeEmbedding",
    "TimestampEmbedding",
    "TimestepEmbedding",
    "TimestepFeatures",
    "UnknownDropout",
    "attention",
    "calibrate",
    "coverage",
    "ALiBiEmbedding",
    "RelativeDecay",
    "LearnedPositionalEmbedding",
    "RotaryEmbedding",
    "convert_layout",
    "SequenceEmbedding",
    "SequenceState",
    "SinusoidalEmbedding",
    "TemporalPositionEncoder",
    "TokenEmbedding",
]
