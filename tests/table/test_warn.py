"""Warnings at the caller's line, held back and said once, in one thread and in several."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from tabembed import SequenceEncoder, TableEncoder
from tabembed.table import encoder as room
from tabembed.table.warn import said_once, silent, warn_user


def said(function):
    with warnings.catch_warnings(record=True, action="always") as heard:
        function()
    return [(str(warning.message), warning.filename) for warning in heard]


def test_texts_are_said_once_in_their_order_at_the_callers_line():
    def speak():
        with said_once():
            for text in ("b", "a", "b"):
                warn_user(text)

    assert said(speak) == [("b", __file__), ("a", __file__)]


def test_silence_ends_with_its_block():
    def speak():
        with said_once(), silent():
            warn_user("inner")
        warn_user("outer")

    assert [text for text, _ in said(speak)] == ["outer"]


def test_an_error_is_not_held_back():
    with pytest.raises(ValueError, match="gone"), said_once():
        raise ValueError("gone")
    assert [text for text, _ in said(lambda: warn_user("after"))] == ["after"]


def test_a_thread_holds_its_own_texts():
    """Filters of warnings are those of the process: none is touched."""
    inside, done, filters = threading.Event(), threading.Event(), list(warnings.filters)

    def hold():
        with silent():
            inside.set()
            done.wait(10)
            warn_user("held")

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        inside.wait(10)
        assert warnings.filters == filters
        spoken = said(lambda: warn_user("said"))
        done.set()
        held.result()
    assert spoken == [("said", __file__)]


def test_threads_of_columns_are_heard(monkeypatch):
    monkeypatch.setattr(room, "_MANY_ROWS", 2)
    table = pd.DataFrame({"far": [1e300, -1e300, 0.0], "near": [1.0, 2.0, 3.0]})
    loud = said(lambda: room.side_by_side(warn_user, list(table), 3))
    assert sorted(text for text, _ in loud) == ["far", "near"]

    def quiet():
        with silent():
            room.side_by_side(warn_user, list(table), 3)

    assert said(quiet) == []


def test_encoders_warn_at_the_callers_line():
    table = pd.DataFrame({"who": ["a", None], "when": [1, 2], "x": [1.0, 2.0], "none": [None, None]})
    encoder = SequenceEncoder("who", "when", on_missing="drop")
    columns = TableEncoder()
    heard = [*said(lambda: encoder.fit(table)), *said(lambda: columns.fit(table[["none", "x"]]))]
    assert heard
    assert {filename for _, filename in heard} == {__file__}
