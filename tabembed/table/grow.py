"""A fitted column that knows more values: they get the ids after those that are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tabembed.table.canonical import canonical, common_type, family
from tabembed.table.frame import read_frame
from tabembed.table.lists import CategoricalList, cells
from tabembed.table.vocabulary import Vocabulary


def grown(column: Any, values: Any) -> Any:
    """The same fitted column of categories or lists, which also knows some values.

    Args:
        column: a ``CategoryEncoder`` or ``ListEncoder``; stays as it is.
        values: a list, a series or an array of values. Those that are known, stand twice or are missing
            are passed over. Of a column of lists they may be lists, or text with its separator.

    Raises: TypeError for values of another type than in the fit or no list. ValueError where no one
        type holds numbers together with those of the fit.

    >>> from tabembed.table.category import Categorical
    >>> fitted = Categorical().finalize("x", Categorical().partial("x", pa.array(["b", "b", "a"])), 3)
    >>> more = grown(fitted, ["d", "a", "c", None, "d"])
    >>> more.vocabulary.values.to_pylist(), more.column.counts
    (['b', 'a', 'c', 'd'], (0, 0, 0, 2, 1, 0, 0))
    """
    name, known = column.column.name, column.vocabulary.values
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise TypeError(f"column {name!r}: must be grown by a list or a column of values, got {values!r}")
    array = read_frame({name: values}).column(0)
    if column.lane == "lists" and (CategoricalList.accepts(array.type) or column.separator is not None):
        array, _, _ = cells(array, column.separator, name)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not pa.types.is_null(known.type) and array.null_count < len(array):
        ours, theirs = family(known.type), family(array.type)
        if ours != theirs:
            raise TypeError(f"column {name!r}: must hold {ours} as in the fit, got {theirs}")
    new = canonical(array, name).drop_null().unique()
    kind = common_type(known.type, new.type, name)
    try:
        known, new = known.cast(kind), new.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"column {name!r}: must fit one type of number with the values of the fit ({error})"
        ) from None
    new = new.filter(pc.invert(pc.is_in(new, value_set=known)))
    if len(new):  # by value, so that the ids do not depend on the order in which values were given
        new = new.take(pc.sort_indices(new))
    counts = column.column.counts + (0,) * len(new)
    vocabulary = Vocabulary(pa.concat_arrays([known, new]), name)
    return replace(column, vocabulary=vocabulary, column=replace(column.column, counts=counts))
