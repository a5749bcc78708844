"""Pictures of what an embedder has learned, with matplotlib (the extra ``plot``)."""

from tabembed.plot.embedding_display import EmbeddingDisplay
from tabembed.plot.training_display import TrainingDisplay

__all__ = ["EmbeddingDisplay", "TrainingDisplay"]
