"""Rows of an entity in time: from a table of events to sequences."""

from tabembed.sequence.batch import SequenceBatch as SequenceBatch

__all__ = ["SequenceBatch"]
