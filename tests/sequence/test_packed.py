from __future__ import annotations

import pytest
import torch
from made_sequences import LENGTHS, assert_holds, made, owned


def numbers(part):
    return [int(entity.split()[1]) for entity in part.entities]


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("budget", [1, 3, 6, 11, 100])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_whole_sequences_once_each_within_the_budget(lengths, budget, seed):
    batch = made(lengths)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    parts = list(batch.packed(budget, generator=generator))
    rows = owned(batch)
    for part in parts:
        assert part.n_rows <= budget or len(part) == 1
        assert numbers(part) == sorted(numbers(part))
        assert_holds(part, (batch, [rows[i] for i in numbers(part)]))
    assert sorted(i for part in parts for i in numbers(part)) == list(range(len(lengths)))


@pytest.mark.parametrize("seed", [None, 0])
def test_similar_lengths_together_and_batches_filled(seed):
    lengths = torch.randint(1, 60, (200,), generator=torch.Generator().manual_seed(5)).tolist()
    batch = made(lengths)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    parts = list(batch.packed(150, generator=generator))
    by_length = sorted(parts, key=lambda part: (part.lengths.min().item(), part.lengths.max().item()))
    for small, large in zip(by_length[:-1], by_length[1:], strict=True):
        assert small.lengths.max() <= large.lengths.min()
        assert small.n_rows + large.lengths.min() > 150  # one more would not have fitted


def test_without_a_generator_the_shortest_come_first_in_their_order():
    parts = list(made((3, 1, 3, 2, 9)).packed(6))
    assert [numbers(part) for part in parts] == [[0, 1, 3], [2], [4]]


def test_a_generator_shuffles_batches_and_neighbours_of_one_length():
    batch = made([2] * 12 + [5] * 4)

    def drawn(seed):
        parts = batch.packed(6, generator=torch.Generator().manual_seed(seed))
        return [tuple(numbers(part)) for part in parts]

    orders = [drawn(seed) for seed in range(8)]
    assert orders[0] == drawn(0)
    assert len({tuple(order) for order in orders}) == 8
    assert len({frozenset(order) for order in orders}) == 8  # other neighbours, not only another order
    assert len({len(order[0]) for order in orders}) > 1  # long and short ones come first


def test_an_own_generator_leaves_the_global_one_alone():
    before = torch.random.get_rng_state()
    list(made((3, 1, 3)).packed(4, generator=torch.Generator().manual_seed(0)))
    assert torch.random.get_rng_state().equal(before)


@pytest.mark.parametrize(
    ("budget", "error", "match"),
    [
        (0, ValueError, "token_budget must be at least 1, got 0"),
        (-3, ValueError, "token_budget must be at least 1, got -3"),
        (2.5, TypeError, "token_budget must be an integer, got 2.5"),
    ],
)
def test_bad_budgets_are_errors_at_once(budget, error, match):
    with pytest.raises(error, match=match):
        made((3, 1)).packed(budget)
