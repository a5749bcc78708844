"""scikit-learn estimators."""

from tabembed.estimators.cyclic import CyclicTransformer
from tabembed.estimators.gaussian_fourier import GaussianFourierTransformer
from tabembed.estimators.learned_fourier import LearnedFourierTransformer
from tabembed.estimators.random_fourier import RandomFourierTransformer
from tabembed.estimators.sequence_embedder import SequenceEmbedder
from tabembed.estimators.table_embedder import TableEmbedder

__all__ = [
    "CyclicTransformer",
    "GaussianFourierTransformer",
    "LearnedFourierTransformer",
    "RandomFourierTransformer",
    "SequenceEmbedder",
    "TableEmbedder",
]
