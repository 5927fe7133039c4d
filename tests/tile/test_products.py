"""Programs that only multiply matrices have a kernel of their own, with the entries of a row in the lanes."""

import itertools

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.tile.source import kernel as compiled
from diffsim.tile.source.kernel import Kernel
from diffsim.tile.source.products import ProductKernel
from tests.sampled import sampled

LENGTHS = [(1, 3, 4), (5, 1, 8), (3, 7, 12), (8, 8, 8), (2, 32, 16), (4, 5, 24)]
"""Rows, length of the sum, columns."""


def drawn(*shapes, dtype="f8", tiles=7):
    rng = numpy.random.default_rng(sum(map(sum, shapes)))
    return [rng.normal(size=(tiles, *shape)).astype(dtype) for shape in shapes]


@pytest.fixture
def kinds(monkeypatch):
    """The kinds of kernels that calls have."""
    types, choose = [], compiled._new

    def noted(program, form):
        kernel = choose(program, form)
        types.append(type(kernel))
        return kernel

    monkeypatch.setattr(compiled, "_new", noted)
    monkeypatch.setattr(compiled, "_kernels", {})
    return types


def agrees(function, arrays, expected, kinds, kind=ProductKernel):
    result = ds.tile.map(function)(*arrays)
    tolerance = 1e-12 if arrays[0].dtype == numpy.float64 else 1e-4
    numpy.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    assert set(kinds) == {kind}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("lengths", sampled([(each,) for each in LENGTHS]))
def test_products_of_arguments_and_transposes(lengths, dtype, kinds) -> None:
    """All forms: each factor and the result as it is or transposed."""
    rows, inner, columns = lengths
    for left, right, out in itertools.product((False, True), repeat=3):
        a, b = drawn((inner, rows) if left else (rows, inner), (columns, inner) if right else (inner, columns), dtype=dtype)

        def product(a, b, left=left, right=right, out=out):
            product = (a.T if left else a) @ (b.T if right else b)
            return product.T if out else product

        whole = numpy.einsum(f"n{'ki' if left else 'ik'},n{'jk' if right else 'kj'}->n{'ji' if out else 'ij'}", a, b)
        if out and rows % (4 if dtype == "f4" else 2):
            agrees(product, (a, b), whole, kinds, Kernel)
        else:
            agrees(product, (a, b), whole, kinds)
        kinds.clear()


@pytest.mark.parametrize("letters", ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "kj,ik->ij", "ki,jk->ji", "jk,ki->ij"])
def test_einsum(letters, kinds) -> None:
    a, b = drawn((4, 4), (4, 4))
    first, rest = letters.split(",")
    second, third = rest.split("->")
    agrees(lambda a, b: np.einsum(letters, a, b), (a, b), numpy.einsum(f"n{first},n{second}->n{third}", a, b), kinds)


def test_vectors(kinds) -> None:
    a, v = drawn((8, 8), (8,))
    agrees(lambda a, v: a @ v, (a, v), numpy.einsum("nik,nk->ni", a, v), kinds)
    agrees(lambda a, v: v @ a, (a, v), numpy.einsum("nk,nkj->nj", v, a), kinds)
    agrees(lambda a, v: a.T @ v, (a, v), numpy.einsum("nki,nk->ni", a, v), kinds)


def test_derivatives(kinds) -> None:
    a, b = drawn((4, 6), (6, 8))
    (ct,) = drawn((4, 8))
    result, pullback = ds.vjp(ds.tile.map(np.matmul), a, b)
    a_bar, b_bar = pullback(ct)
    numpy.testing.assert_allclose(result, a @ b, atol=1e-12)
    numpy.testing.assert_allclose(a_bar, numpy.einsum("nij,nkj->nik", ct, b), atol=1e-12)
    numpy.testing.assert_allclose(b_bar, numpy.einsum("nik,nij->nkj", a, ct), atol=1e-12)
    assert set(kinds) == {ProductKernel}


@pytest.mark.parametrize("tiles", [1, 2, 63, 200])
def test_tiles_of_each_thread(tiles, kinds) -> None:
    a, b = drawn((4, 4), (4, 4), tiles=tiles)
    agrees(np.matmul, (a, b), a @ b, kinds)


def test_a_matrix_that_all_tiles_share(kinds) -> None:
    a, b = drawn((3, 4), (4, 8))
    numpy.testing.assert_allclose(ds.tile.map(np.matmul, axes=(None, 0))(a[0], b), a[0] @ b, atol=1e-12)
    numpy.testing.assert_allclose(ds.tile.map(np.matmul, axes=(0, None))(a, b[0]), a @ b[0], atol=1e-12)
    assert set(kinds) == {ProductKernel}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_memory_that_is_not_aligned(dtype, kinds) -> None:
    a, b = drawn((4, 4), (4, 4), dtype=dtype, tiles=20_000)  # small arrays are copied before they are read
    moved = []
    for x in (a, b):
        memory = numpy.empty(x.nbytes + 32, numpy.uint8)
        first = -memory.ctypes.data % 16 + x.itemsize
        moved.append(memory[first : first + x.nbytes].view(dtype).reshape(x.shape))
        moved[-1][...] = x
        assert moved[-1].ctypes.data % 16
    agrees(np.matmul, moved, a @ b, kinds)
    strided = numpy.asfortranarray(a)
    agrees(np.matmul, (strided, b), a @ b, kinds)


def test_a_factor_that_is_repeated(kinds) -> None:
    a, b = drawn((4, 1), (3, 4))
    agrees(lambda a, b: np.einsum("ik,kj->ij", a, b), (a, b), a * b.sum(1)[:, None], kinds, Kernel)


def test_other_programs_are_not_products(kinds) -> None:
    a, b = drawn((4, 4), (4, 4))
    agrees(lambda a, b: a @ b @ a, (a, b), a @ b @ a, kinds, Kernel)
    agrees(lambda a, b: np.einsum("ij,ij->j", a, b), (a, b), (a * b).sum(1), kinds, Kernel)
    agrees(lambda a, b: a @ b[:, :3], (a, b), a @ b[:, :, :3], kinds, Kernel)


def test_the_same_bits_as_the_general_kernel(monkeypatch) -> None:
    a, b = drawn((8, 8), (8, 8), dtype="f4")
    result = ds.tile.map(np.matmul)(a, b)
    monkeypatch.setattr(compiled, "_kernels", {})
    monkeypatch.setattr(compiled, "products_of", lambda program: None)
    numpy.testing.assert_array_equal(ds.tile.map(np.matmul)(a, b), result)
