from __future__ import annotations

import pytest

from tabembed._progress import progress, tracked


def test_the_bar_shows_its_title_and_the_steps_that_are_done(capsys):
    with progress("all rows", 4, 1) as advance:
        for _ in range(3):
            advance()
    shown = capsys.readouterr().out
    assert "all rows" in shown
    assert "3/4" in shown


def test_nothing_is_shown_without_verbose(capsys):
    with progress("all rows", 4, 0) as advance:
        advance()
    assert list(tracked(iter("ab"), "vectors", 2, 0)) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_items_pass_and_are_counted(capsys):
    assert list(tracked(iter("abc"), "vectors", 3, 1)) == ["a", "b", "c"]
    assert "3/3" in capsys.readouterr().out


def test_the_bar_ends_with_an_error(capsys):
    def broken():
        yield "a"
        raise ZeroDivisionError

    for _ in range(2):  # a bar that had not ended would forbid the second
        with pytest.raises(ZeroDivisionError):
            list(tracked(broken(), "vectors", 2, 1))
    assert "1/2" in capsys.readouterr().out


def test_items_may_count_for_several_steps(capsys):
    assert list(tracked(["ab", "c"], "vectors", 3, 1, size=len)) == ["ab", "c"]
    assert "3/3" in capsys.readouterr().out
