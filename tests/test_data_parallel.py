"""Two processes train one network (casebook H39): no parameter is left out, and the replicas stay equal."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import ranks
import torch

from tabembed import SequenceEmbedding, SequenceEncoder, TableEmbedding, TableEncoder

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What two processes found in every case: started once, as torch takes seconds to import."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks.N_RANKS)]
    launch += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launch, ranks.__file__, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(folder / f"{rank}.pt") for rank in range(ranks.N_RANKS)]


def on_one_process(case):
    """The oracle: one network that starts as that of the first process, the mean of the losses of both."""
    torch.manual_seed(0)
    net = case.net()
    optimiser = ranks.optimiser_of(net)
    for step in range(ranks.N_STEPS):
        optimiser.zero_grad()
        losses = [ranks.loss_of(net(**case.tensors(rank, step))) for rank in range(ranks.N_RANKS)]
        torch.stack(losses).mean().backward()
        optimiser.step()
    return net.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("name", ranks.CASES)
def test_replicas_are_equal_and_learn_as_one_network_would(name, found):
    first, second = (one[name] for one in found)
    assert "error" not in first, first["error"]
    assert first["without"] == second["without"] == []
    case = ranks.CASES[name]()
    wanted = on_one_process(case)
    assert first["state"].keys() == wanted.keys()
    for key, value in wanted.items():
        assert torch.equal(first["state"][key], second["state"][key]), key
        torch.testing.assert_close(first["state"][key], value, rtol=1e-4, atol=1e-6, msg=key)


@pytest.mark.slow
def test_a_part_that_is_left_out_is_found(found):
    for one in found:
        assert "Expected to have finished reduction" in one[ranks.LEFT_OUT]["error"]


@pytest.mark.parametrize("name", ["missing delay", "empty lists", "recurrence"])
def test_every_parameter_has_a_gradient_where_a_column_is_only_missing(name):
    case = ranks.CASES[name]()
    net = case.net()
    ranks.loss_of(net(**case.tensors(1, 0))).backward()
    assert [key for key, parameter in net.named_parameters() if parameter.grad is None] == []


def test_a_column_that_is_switched_off_has_no_parameters():
    drop = dict.fromkeys(("tags", "until", "who", "when"), "drop")
    net = TableEmbedding(TableEncoder({"city": "drop", **drop}).fit(ranks.FIT).schema_)
    assert [tuple(p.shape) for p in net.parameters()] == [(5, 1), (1, 8), (1, 8), (1, 8)]
    table = pd.DataFrame({"who": ["a", "a"], "when": [0, 5], "city": ["Oslo", "Rome"]})
    schema = SequenceEncoder("who", "when", {"city": "drop"}).fit(table).schema_
    assert not [p for p in SequenceEmbedding(schema, d_model=16).parameters() if p.shape[0] == 5]
