"""What does not go together in an embedder of sequences."""

from __future__ import annotations

from tabembed.sequence import SequenceEncoder


def check_whole(encoder: SequenceEncoder, per: str, output: str) -> None:
    """Refuse sequences that are cut to their last rows where rows have vectors or targets.

    Args:
        encoder: a fitted encoder, which may have ``max_events``.
        per: ``"row"`` or ``"entity"``: what has a target.
        output: what gets a vector.

    Raises: ValueError naming ``encoder.max_events``.
    """
    cut = encoder._rule.max_events  # that of the fit, whatever was set since
    if cut is not None and "row" in (per, output):
        raise ValueError(
            f"encoder.max_events must be None where rows have vectors or targets, got {cut}: "
            "it counts from the end of the table, so a row's past would tell how many rows follow. "
            "max_length cuts training; max_events is for output='entity' with one value of y for every entity"
        )


def check_by_time(per: str, output: str) -> None:
    """Refuse blocks of time where what has a target, or gets a vector, is no row.

    Raises: ValueError naming ``cv``.
    """
    if per == "entity":
        raise ValueError("cv='time' must have one value of y for every row, got one for every entity")
    if output == "entity":
        raise ValueError(
            "cv='time' must have output='row', got 'entity': an entity's rows are in many blocks"
        )
