"""Writers, readers and kills at one path: every load gives one of the models, whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tabembed import ArtifactError
from tabembed.artifact import inside, load, read, replacing, write

ROOT = Path(__file__).parents[2]
SIZE = 3_000
WRITER = """
import sys, tempfile, time, numpy as np
from tabembed.artifact import replacing
from tabembed.artifact import write
if sys.argv[3] == "two steps":
    replacing.exchange = lambda one, other: False
with tempfile.TemporaryDirectory() as warm:
    write(warm + "/model", "Thing", {}, {"a": np.ones(2)})
end, number = time.monotonic() + float(sys.argv[4]), int(sys.argv[2])
print("ready", flush=True)
while time.monotonic() < end:
    number += 100
    arrays = {"a": np.full(SIZE, number), "b": np.full((2, 2), number)}
    write(sys.argv[1], "Thing", {"number": number}, arrays)
""".replace("SIZE", str(SIZE))


def writer(path, number, seconds, steps="one step"):
    command = [sys.executable, "-c", WRITER, str(path), str(number), steps, str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def number_of(path):
    """The number that a model says everywhere."""

    def whole(config, arrays):
        number = config["number"]
        assert arrays.keys() == {"a", "b"}
        assert arrays["a"].tolist() == [number] * SIZE
        assert arrays["b"].tolist() == [[number] * 2] * 2
        return number

    return load(path, {"Thing": whole})


def save(path, number):
    write(path, "Thing", {"number": number}, {"a": np.full(SIZE, number), "b": np.full((2, 2), number)})


def beside(path):
    return [name for name in os.listdir(path.parent) if name != path.name]


def together(path, n_writers, seconds, steps="one step"):
    """Read while others write: the numbers that were read, and how the writers ended."""
    save(path, 1)
    writers = [writer(path, number, seconds, steps) for number in range(1, n_writers + 1)]
    for one in writers:
        assert one.stdout.readline() == "ready\n"
    seen = []
    while any(one.poll() is None for one in writers):
        seen.append(number_of(path))
    for one in writers:
        one.stdout.close()
    return seen, [one.returncode for one in writers]


def killed(path, rounds, steps="one step"):
    """Kill a writer at random moments: the numbers that stood there afterwards."""
    rng, seen = random.Random(0), []
    save(path, 1)
    for number in range(1, rounds + 1):
        with writer(path, number, 60, steps) as one:
            assert one.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0, 0.2))
            one.send_signal(signal.SIGKILL)
        seen.append(path.exists() and number_of(path))
    return seen


def test_readers_never_see_a_mixture(tmp_path):
    seen, codes = together(tmp_path / "model", 2, 0.5)
    assert codes == [0, 0]
    assert len(set(seen)) > 2
    assert beside(tmp_path / "model") == []


def test_a_kill_leaves_one_model_and_the_next_save_tidies_up(tmp_path):
    model = tmp_path / "model"
    assert all(killed(model, 2))
    save(model, 7)
    assert number_of(model) == 7
    assert beside(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("steps", ["one step", "two steps"])
def test_four_writers_and_a_reader(tmp_path, steps):
    seen, codes = together(tmp_path / "model", 4, 2, steps)
    assert codes == [0] * 4
    assert len(set(seen)) > 10
    assert {number % 100 for number in seen} <= {1, 2, 3, 4}
    save(tmp_path / "model", 7)
    assert beside(tmp_path / "model") == []


@pytest.mark.slow
def test_thirty_kills(tmp_path):
    model = tmp_path / "model"
    seen = killed(model, 30)
    assert all(seen)
    assert len(set(seen)) > 10
    save(model, 7)
    assert beside(model) == []


def two_steps(monkeypatch):
    monkeypatch.setattr(replacing, "exchange", lambda one, other: False)


def test_two_steps_do_the_same(tmp_path, monkeypatch):
    two_steps(monkeypatch)
    for number in (1, 2, 3):
        save(tmp_path / "model", number)
        assert number_of(tmp_path / "model") == number
        assert beside(tmp_path / "model") == []


def test_a_kill_between_two_steps_is_said_and_mended(tmp_path, monkeypatch):
    two_steps(monkeypatch)
    model = tmp_path / "model"
    save(model, 1)
    os.rename(model, tmp_path / f".model.{'0' * 32}.old")
    with pytest.raises(ArtifactError, match=r"nothing there but '\.model\.0{32}\.old', the older model"):
        read(model, ["Thing"])
    save(model, 2)
    assert number_of(model) == 2
    assert beside(model) == []


def test_the_folder_of_a_living_writer_stays(tmp_path):
    living = tmp_path / f".model.{'a' * 32}"
    living.mkdir()
    (living / "config.json").write_text("half of it")
    lock = replacing._lock(living)
    save(tmp_path / "model", 1)
    assert beside(tmp_path / "model") == [living.name]
    os.close(lock)
    save(tmp_path / "model", 2)
    assert beside(tmp_path / "model") == []


def test_hidden_folders_that_are_not_ours_stay(tmp_path):
    names = [f".model.{'a' * 31}", f".model.{'g' * 32}", f".other.{'a' * 32}", f".model.{'a' * 32}"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / names[-1] / "notes.txt").write_text("mine")
    save(tmp_path / "model", 1)
    assert sorted(beside(tmp_path / "model")) == sorted(names)


def test_what_another_puts_there_at_the_last_moment_stays(tmp_path, monkeypatch):
    model, look = tmp_path / "model", replacing._put_in_place
    save(model, 1)

    def late(beside, target, *rest):
        (target / "notes.txt").write_text("mine")
        look(beside, target, *rest)

    monkeypatch.setattr(replacing, "_put_in_place", late)
    with pytest.raises(ArtifactError, match="path must be new or hold only a tabembed model"):
        save(model, 2)
    assert number_of(model) == 1
    assert (model / "notes.txt").read_text() == "mine"
    assert beside(model) == []


def test_a_folder_replaced_between_two_files_is_read_again(tmp_path, monkeypatch):
    model, regular, calls = tmp_path / "model", inside._regular, []
    save(model, 1)

    def slow(path, name, folder):
        calls.append(name)
        if len(calls) == 2:
            save(model, 2)
        return regular(path, name, folder)

    monkeypatch.setattr(inside, "_regular", slow)
    assert number_of(model) == 2


def test_an_open_folder_is_not_mixed_with_the_next(tmp_path):
    model = tmp_path / "model"
    save(model, 1)
    with inside.opened(model, ["config.json", "model.safetensors"]) as files:
        save(model, 2)
        texts = [file.read() for file in files]
    save(tmp_path / "first", 1)
    assert texts == [
        (tmp_path / "first" / name).read_bytes() for name in ("config.json", "model.safetensors")
    ]
