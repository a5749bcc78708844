"""The operator that looks many tables up, plain and in Triton's interpreter, against its formula."""

from __future__ import annotations

import pytest
import torch
from functional.test_gather import drawn, some_ids
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

from tabembed.functional.gather import gather as formula
from tabembed.kernels import gather, gather_columns, use_backend
from tabembed.kernels.gather import gather_gradient
from tabembed.kernels.gather import gather_tables as op
from tabembed.nn import MultiCategoricalEmbedding, TableEmbedding
from tabembed.schema import CategoricalColumn, TableSchema

gather_triton = pytest.importorskip("tabembed.kernels.gather_triton")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BACKENDS = ("auto", "triton")  # plain PyTorch, and the interpreter
ODD = [(5, 1), (12, 3), (40, 14), (7, 16), (1, 33)]
EVEN = [(9, 8), (3, 64), (20, 16)]


def gradients(function, weights, ids, direction):
    leaves = [weight.detach().requires_grad_() for weight in weights]
    return torch.autograd.grad(function(leaves, ids), leaves, direction)


def directions(shapes, n_rows, dtype=torch.float64):
    return drawn([(n_rows, sum(width for _, width in shapes))], dtype)[0]


@pytest.mark.parametrize("kind", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shapes", [ODD, EVEN], ids=["odd", "even"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_and_gradients_equal_the_formula(backend, shapes, dtype, kind):
    weights, ids = drawn(shapes, dtype), some_ids(shapes, 131)  # more than two tiles
    direction = directions(shapes, 131, dtype)
    with use_backend(backend):
        assert torch.equal(op(weights, ids.to(kind)), formula(weights, ids))
        got = gradients(op, weights, ids.to(kind), direction)
    wide = gradients(formula, [weight.double() for weight in weights], ids, direction.double())
    for one, truth in zip(got, wide, strict=True):
        assert one.dtype == dtype
        assert_close(
            one.double(), truth, rtol=torch.finfo(dtype).eps, atol=1e-13 if dtype == DTYPES[3] else 2e-6
        )


SHAPES_OF_ALL_SORTS = {
    "one column": [(6, 5)],
    "forty columns": [(3 + j, 1 + j % 7) for j in range(40)],
    "a table without rows": [(4, 2), (0, 3), (2, 2)],
    "wider than a tile is long": [(2, 700), (3, 1)],
}


@pytest.mark.parametrize("n_rows", [0, 1, 3])
@pytest.mark.parametrize("shapes", SHAPES_OF_ALL_SORTS.values(), ids=SHAPES_OF_ALL_SORTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_number_of_columns_and_rows(backend, shapes, n_rows):
    weights, ids, direction = drawn(shapes), some_ids(shapes, n_rows), directions(shapes, n_rows)
    with use_backend(backend):
        output = op(weights, ids)
        got = gradients(op, weights, ids, direction)
    assert torch.equal(output, formula(weights, ids))
    for one, truth in zip(got, gradients(formula, weights, ids, direction), strict=True):
        assert_close(one, truth)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_outside_gives_zeros_and_takes_no_gradient_whatever_stands_there(backend):
    weight = torch.full((3, 4), torch.nan).requires_grad_()
    ids = torch.tensor([[-1], [3], [10**12], [2**63 - 1], [-(2**63)]])
    with use_backend(backend):
        output = op([weight], ids)
        (grad,) = torch.autograd.grad(output, weight, torch.full((5, 4), torch.nan))
    assert torch.equal(output, torch.zeros(5, 4))
    assert torch.equal(grad, torch.zeros(3, 4))


def strided(tensor):
    """The same numbers as seen in other places of memory."""
    yield tensor.T.contiguous().T
    yield torch.cat((tensor, tensor + 1), 1)[:, : tensor.shape[1]]  # of a fused buffer
    yield torch.stack((tensor, tensor + 1), 1)[:, 0]
    yield torch.stack((tensor, tensor + 1), -1)[..., 0]
    yield torch.cat((tensor.flatten()[:1], tensor.flatten()))[1:].view_as(tensor)  # not a multiple of 16


@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_strides(backend, case):
    weights, ids, direction = drawn(EVEN), some_ids(EVEN, 9), directions(EVEN, 9)
    expected = gradients(formula, weights, ids, direction)
    places = [list(strided(tensor))[case] for tensor in (*weights, ids, direction)]
    with use_backend(backend):
        assert torch.equal(op(places[:3], places[3]), formula(weights, ids))
        for one, truth in zip(gradients(op, places[:3], places[3], places[4]), expected, strict=True):
            assert_close(one, truth)
        one_id = ids[:1].expand(9, 3)
        assert torch.equal(op(weights, one_id), formula(weights, one_id))
        same = torch.ones(()).double().expand(9, direction.shape[1])  # what a sum sends back
        got = gradients(op, weights, ids, same)
    for one, truth in zip(got, gradients(formula, weights, ids, same), strict=True):
        assert_close(one, truth)


@pytest.mark.parametrize("shapes", [ODD, EVEN], ids=["odd", "even"])
def test_nothing_is_written_around_the_output(shapes):
    weights, ids = drawn(shapes, torch.float32), some_ids(shapes, 67)
    width = sum(d for _, d in shapes)
    guarded = torch.full((69, width + 8), 7.0)
    gather_triton.launch(guarded[1:-1, 4:-4], weights, ids)
    assert torch.equal(guarded[1:-1, 4:-4], formula(weights, ids))
    guarded[1:-1, 4:-4] = 7
    assert (guarded == 7).all()


@pytest.mark.parametrize("shapes", [ODD, EVEN], ids=["odd", "even"])
def test_nothing_is_added_around_the_gradients(shapes):
    ids, grad = some_ids(shapes, 67), directions(shapes, 67, torch.float32)
    guarded = [torch.zeros(n + 2, width) for n, width in shapes]
    gather_triton._launch(gather_triton.gradient_kernel, grad, [table[1:-1] for table in guarded], ids)
    expected = gradients(formula, drawn(shapes, torch.float32), ids, grad)
    for table, truth in zip(guarded, expected, strict=True):
        assert_close(table[1:-1], truth)
        assert not table[0].any()
        assert not table[-1].any()


def test_how_many_elements_move_at_a_time():
    def vector(widths, dtype=torch.float32, first=0):
        memory = torch.zeros(4096, dtype=dtype)
        tables = [memory[first : first + width].view(1, width) for width in widths]
        return gather_triton._vector(torch.zeros(2, sum(widths), dtype=dtype), tables)

    assert vector([4, 8, 64]) == 4
    assert vector([4, 8, 14]) == 2
    assert vector([4, 8, 33]) == 1
    assert vector([16, 64], torch.bfloat16) == 8
    assert vector([2, 6], torch.float64) == 2
    assert vector([4, 8], first=2) == 2
    assert vector([4, 8], first=1) == 1


class Counting:
    """A kernel that counts its launches."""

    def __init__(self, kernel):
        self.kernel, self.n_launches = kernel, 0

    def __getitem__(self, grid):
        assert len(grid) == 1
        self.n_launches += 1
        return self.kernel[grid]


@pytest.mark.parametrize("shapes", [EVEN, SHAPES_OF_ALL_SORTS["forty columns"]], ids=["three", "forty"])
def test_one_launch_however_many_columns(shapes, monkeypatch):
    counted = {}
    for name in ("gather_kernel", "gradient_kernel"):
        counted[name] = Counting(getattr(gather_triton, name))
        monkeypatch.setattr(gather_triton, name, counted[name])
    with use_backend("triton"):
        gradients(gather, drawn(shapes), some_ids(shapes, 4), directions(shapes, 4))
    assert [one.n_launches for one in counted.values()] == [1, 1]


def test_sums_of_half_precision_are_rounded_once():
    weights, ids = [torch.zeros(1, 1, dtype=torch.bfloat16)], torch.zeros(1001, 1, dtype=torch.int64)
    ones = torch.ones(1001, 1, dtype=torch.bfloat16)  # in bfloat16, 256 + 1 is 256
    for backend in BACKENDS:
        with use_backend(backend):
            assert gradients(op, weights, ids, ones)[0].item() == 1000


def test_tables_past_32_bits():  # H38
    memory = torch.empty(2**31 + 8, dtype=torch.float16)  # only the pages that are touched exist
    table = memory.view(-1, 8)
    table[-1] = torch.arange(8)
    ids = torch.tensor([[len(table) - 1], [len(table)]])
    with use_backend("triton"):
        output = gather([table], ids)
    assert torch.equal(output, torch.stack((torch.arange(8), torch.zeros(8))).half())
    far = memory.as_strided((2, 8), (2**31, 1))
    gather_triton.launch(far, [table[-1:]], torch.tensor([[1], [0]]))
    assert torch.equal(far, output.flip(0))


def test_sizes_past_32_bits_are_planned_without_memory():
    with torch.device("meta"):
        weight, ids = torch.empty(3, 64), torch.empty(2**26, 1, dtype=torch.int64)
    assert op([weight], ids).shape == (2**26, 64)
    assert gather_gradient(op([weight], ids), ids, [3], [64])[0].shape == (3, 64)


@pytest.mark.parametrize("backend", ["reference", *BACKENDS])
@pytest.mark.parametrize("function", [gather, gather_columns])
def test_tables_of_one_dtype(function, backend):
    weights, ids = [torch.zeros(2, 1), torch.zeros(2, 1).half()], torch.zeros(1, 2, dtype=torch.int64)
    message = r"weights must have one dtype, got torch\.float16, torch\.float32"
    with use_backend(backend):
        with pytest.raises(TypeError, match=message):
            function(weights, ids)
        torch.compiler.reset()
        with pytest.raises(TypeError, match=message):
            torch.compile(function, backend="aot_eager")(weights, ids)


def test_who_asks_for_determinism_gets_sums_in_order(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("atomic additions come in any order")

    monkeypatch.setattr(gather_triton, "launch_gradient", refuse)
    weights, ids, direction = drawn(ODD), some_ids(ODD, 9), directions(ODD, 9)
    torch.use_deterministic_algorithms(True)
    try:
        with use_backend("triton"):
            got = gradients(gather, weights, ids, direction)
    finally:
        torch.use_deterministic_algorithms(False)
    for one, truth in zip(got, gradients(formula, weights, ids, direction), strict=True):
        assert_close(one, truth)


# The operator as PyTorch sees it


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_of_first_and_second_order(backend):
    shapes = [(2, 1), (1, 2)]
    weights, ids = [weight.requires_grad_() for weight in drawn(shapes)], some_ids(shapes, 3, beyond=1)
    with use_backend(backend):
        assert torch.autograd.gradcheck(lambda *w: op(list(w), ids), weights)
        assert torch.autograd.gradgradcheck(lambda *w: op(list(w), ids).sin(), weights)


@pytest.mark.parametrize("backend", BACKENDS)
def test_frozen_tables_take_no_gradient(backend):
    weights, ids, direction = drawn(ODD), some_ids(ODD, 9), directions(ODD, 9)
    leaves = [weight.clone().requires_grad_(j != 2) for j, weight in enumerate(weights)]
    with use_backend(backend):
        op(leaves, ids).backward(direction)
    expected = gradients(formula, weights, ids, direction)
    for j, (leaf, truth) in enumerate(zip(leaves, expected, strict=True)):
        assert (leaf.grad is None) == (j == 2)
        if j != 2:
            assert_close(leaf.grad, truth)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_opcheck(backend, dtype):
    weights, ids = [weight.requires_grad_() for weight in drawn(EVEN, dtype)], some_ids(EVEN, 5)
    with use_backend(backend):
        torch.library.opcheck(op, (weights, ids))
        torch.library.opcheck(op, (weights, ids.T.contiguous().T))
        grad = directions(EVEN, 5, dtype).requires_grad_()
        torch.library.opcheck(gather_gradient, (grad, ids, [9, 3, 20], [8, 64, 16]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap_over_ids_over_tables_and_over_both(backend):
    weights, ids = drawn([(3, *shape) for shape in ODD]), some_ids(ODD, 3, 5)
    turned = [weight.movedim(0, 2) for weight in weights]
    one = [weight[0] for weight in weights]
    cases = [
        (lambda i: op(one, i), (ids,), 0),
        (lambda i: op(one, i), (ids.movedim(0, 1),), 1),
        (lambda w: op(w, ids[0]), (turned,), 2),
        (lambda w, i: op(w, i), (weights, ids), 0),
        (lambda w, i: op([*w, one[4]], i), (weights[:4], ids), 0),
        (lambda g, i: tuple(gather_gradient(g, i, [n for n, _ in ODD], [d for _, d in ODD])), None, 0),
        (lambda g: tuple(gather_gradient(g, ids[0], [n for n, _ in ODD], [d for _, d in ODD])), None, 0),
    ]
    grad = drawn([(3, 5, 67)])[0]
    for k, (function, arguments, dim) in enumerate(cases):
        given = arguments or ((grad, ids) if k == 5 else (grad,))
        items = [
            [one.select(dim, i) for one in argument]
            if isinstance(argument, list)
            else argument.select(dim, i)
            for i in range(3)
            for argument in given
        ]
        each = [function(*items[i * len(given) : (i + 1) * len(given)]) for i in range(3)]
        with use_backend(backend):
            got = torch.func.vmap(function, dim)(*given)
        if isinstance(got, tuple):
            for one_sum, parts in zip(got, zip(*each, strict=True), strict=True):
                assert_close(one_sum, torch.stack(parts))
        else:
            assert torch.equal(got, torch.stack(each))


def test_vmap_over_nothing():
    weights, ids = drawn(ODD), some_ids(ODD, 0, 5)
    assert torch.func.vmap(lambda i: op(weights, i))(ids).shape == (0, 5, 67)


def test_derivatives_of_torch_func():
    weights, ids = drawn(ODD), some_ids(ODD, 4, 1)

    def loss(tables, row):
        return gather(tables, row).sin().sum()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, ids)
    for i in range(4):
        expected = gradients(lambda w, row: gather(w, row).sin(), weights, ids[i], torch.ones(1, 67).double())
        for one, truth in zip(each, expected, strict=True):
            assert_close(one[i], truth)
    _, tangent = torch.func.jvp(lambda *w: gather(w, ids[0]), tuple(weights), tuple(weights))
    assert torch.equal(tangent, formula(weights, ids[0]))


class Gather(torch.nn.Module):
    def forward(self, ids, *weights):
        return gather(list(weights), ids)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_once_for_all_sizes_of_a_batch(backend):
    weights = [weight.requires_grad_() for weight in drawn(ODD)]
    counter = CompileCounterWithBackend("aot_eager")
    torch.compiler.reset()
    compiled = torch.compile(Gather(), fullgraph=True, dynamic=True, backend=counter)
    with use_backend(backend):
        for n_rows in (6, 8, 17):
            ids, direction = some_ids(ODD, n_rows), directions(ODD, n_rows)
            output = compiled(ids, *weights)
            assert torch.equal(output, formula(weights, ids))
            expected = gradients(formula, weights, ids, direction)
            for one, truth in zip(torch.autograd.grad(output, weights, direction), expected, strict=True):
                assert_close(one, truth)
    assert counter.frame_count == 1


@pytest.mark.parametrize(("backend", "operator"), [("auto", False), ("reference", False), ("triton", True)])
def test_exported_programs_need_no_operator_unless_triton_is_asked_for(backend, operator):
    weights, ids = drawn(ODD), some_ids(ODD, 9)
    rows = {0: torch.export.Dim.DYNAMIC}
    with use_backend(backend):
        program = torch.export.export(
            Gather(), (ids, *weights), dynamic_shapes=(rows, (None,) * len(weights))
        )
        assert ("tabembed" in str(program.graph)) == operator
        more = some_ids(ODD, 14)
        assert torch.equal(program.module()(more, *weights), formula(weights, more))


# Who uses it


@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (0,)], ids=str)
def test_categorical_embedding_in_the_interpreter(leading):
    embedding = MultiCategoricalEmbedding([5, 3, 9], [2, 4, 3], padding_idx=1, init_std=1.0, seed=0)
    ids = some_ids([(5, 0), (3, 0), (9, 0)], *leading, beyond=0)
    expected = embedding(ids)
    gradient = torch.autograd.grad(expected.sin().sum(), list(embedding.parameters()))
    with use_backend("triton"):
        output = embedding(ids)
        columns = embedding.columns(ids)
        got = torch.autograd.grad(output.sin().sum(), list(embedding.parameters()))
    assert torch.equal(output, expected)
    assert torch.equal(torch.cat(columns, -1), expected)
    for one, truth in zip(got, gradient, strict=True):
        assert_close(one, truth)


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_may_be_written_into(backend):
    weights, ids = [weight.requires_grad_() for weight in drawn(ODD)], some_ids(ODD, 6)
    expected = [one * 2 for one in formula(weights, ids).split([d for _, d in ODD], 1)]
    with use_backend(backend):
        columns = gather_columns(weights, ids)
    for column, truth in zip(columns, expected, strict=True):
        assert torch.equal(column.mul_(2), truth)


def test_table_embedding_looks_its_columns_up_in_one_launch(monkeypatch):
    counted = Counting(gather_triton.gather_kernel)
    monkeypatch.setattr(gather_triton, "gather_kernel", counted)
    schema = TableSchema(
        9, tuple(CategoricalColumn(f"c{j}", (0, 0, 1, 3, 3, 2)[: 5 + j % 2]) for j in range(4))
    )
    net = TableEmbedding(schema, seed=0)
    inputs = some_ids([(5, 0)] * 4, 7, beyond=0), torch.zeros(7, 0), torch.zeros(7, 0, dtype=torch.bool)
    expected = net(*inputs)
    with use_backend("triton"):
        assert torch.equal(net(*inputs), expected)
    assert counted.n_launches == 1
