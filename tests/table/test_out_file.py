"""Where a result goes, whoever else writes there or is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tabembed.table.out_file import beside_of

WRITER = """
import sys, time
from pathlib import Path
from tabembed.table.out_file import beside_of
with beside_of(Path(sys.argv[1]), False) as target:
    target.write_text("half")
    print("begun", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """A process in the middle of its writing."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks on folders")
def test_what_a_killed_process_has_left_is_removed(writer, tmp_path):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".out.")
    with beside_of(tmp_path / "out", False) as target:
        target.write_text("whole")
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "whole"


def test_what_a_living_process_writes_stays(writer, tmp_path):
    (theirs,) = os.listdir(tmp_path)
    with beside_of(tmp_path / "out", False) as target:
        target.write_text("ours")
    assert sorted(os.listdir(tmp_path)) == [theirs, "out"]
    assert (tmp_path / theirs / "out").read_text() == "half"


def test_what_is_called_alike_stays(tmp_path):
    for name in (".out", ".out.backup", ".out.0123", ".other.0123456789abcdef0123456789abcdef"):
        (tmp_path / name).mkdir()
    before = sorted(os.listdir(tmp_path))
    with beside_of(tmp_path / "out", True) as target:
        (target / "part").write_text("whole")
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "out"])


def fail_beside(out):
    with beside_of(out, False) as target:
        target.write_text("half")
        raise KeyError


def test_an_error_leaves_the_old_result(tmp_path):
    (tmp_path / "out").write_text("old")
    with pytest.raises(KeyError):
        fail_beside(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "old"
