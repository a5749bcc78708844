"""Rows of an entity in time: from a table of events to sequences."""

from tabembed.sequence.batch import SequenceBatch as SequenceBatch
from tabembed.sequence.encoder import SequenceEncoder as SequenceEncoder

__all__ = ["SequenceBatch", "SequenceEncoder"]
