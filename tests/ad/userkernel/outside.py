"""Kernels that must not run at all, since they read or write what a call neither gives nor returns."""

import diffsim as ds
from diffsim.ad.userkernel import UserKernel
from tests.language import ti

A1 = ti.types.ndarray(dtype=ti.f64, ndim=1)

KERNELS: list[UserKernel] = []
PHRASES: dict[str, str] = {}


def fatal(phrase):
    def decorate(function):
        kernel = ds.kernel(reads=("x",), writes={"y": "x"})(function)
        KERNELS.append(kernel)
        PHRASES[kernel.__name__] = phrase
        return kernel

    return decorate


@ti.func
def spoil(field: ti.template(), i):
    field[i] = 0.0


@ti.func
def endless(a):
    return endless(a)


@fatal("x is written, but is not in writes")
def writes_what_it_is_given(x: A1, y: A1):
    for i in x:
        y[i] = x[i]
        x[i] = 0.0


@fatal("x is written, but is not in writes")
def writes_through_a_function(x: A1, y: A1):
    for i in x:
        y[i] = x[i]
        spoil(x, i)


@fatal("without end")
def calls_itself(x: A1, y: A1):
    for i in x:
        y[i] = endless(x[i])
