"""Rows of an entity in time: from a table of events to sequences."""

from tabembed.sequence.batch import SequenceBatch as SequenceBatch
from tabembed.sequence.encoder import SequenceEncoder as SequenceEncoder
from tabembed.sequence.leaks import check_no_leak as check_no_leak

__all__ = ["SequenceBatch", "SequenceEncoder", "check_no_leak"]
