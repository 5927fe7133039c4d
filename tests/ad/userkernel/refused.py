"""Kernels that Taichi differentiates wrongly, or crashes on, one for each construct. `# !` marks the line that is named.

`OUTCOME` is what really happens when such a kernel is differentiated all the same: wrong, crash, raises, or right where
the check refuses what it cannot decide.
"""

import diffsim as ds
from diffsim.ad.userkernel import UserKernel
from tests.language import ti

A1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
A2 = ti.types.ndarray(dtype=ti.f64, ndim=2)
I1 = ti.types.ndarray(dtype=ti.i32, ndim=1)

KERNELS: list[UserKernel] = []
PHRASES: dict[str, str] = {}
OUTCOME: dict[str, str] = {}


def refused(phrase, outcome="wrong", reads=("x",), writes=None):
    def decorate(function):
        kernel = ds.kernel(reads=reads, writes=writes or {"y": "x"})(function)
        KERNELS.append(kernel)
        PHRASES[kernel.__name__], OUTCOME[kernel.__name__] = phrase, outcome
        return kernel

    return decorate


@ti.func
def gaussian_sum(i, field: ti.template()):
    s = 0.0
    for j in range(5):  # !
        s += ti.exp(field[j] * field[i])
    return s


@ti.func
def entry(v, q):
    return v[q] ** 2  # ! of vector_read_by_a_function


@refused("derivative of while", "raises")
def while_loop(x: A1, y: A1):
    for i in x:
        s = x[i]
        while s < 3:  # !
            s = s * s + 1
        y[i] = s


@refused("derivative of break", "raises")
def break_loop(x: A1, y: A1):
    for i in x:
        s = x[i]
        for _ in range(5):
            if s > 3:
                break  # !
            s = s * 1.1
        y[i] = s


@refused("derivative of continue", "raises")
def continue_loop(x: A1, y: A1):
    for i in x:
        if x[i] > 1:
            continue  # !
        y[i] = x[i]


@refused("derivative of ti.tan is not known", "raises")
def tangent(x: A1, y: A1):
    for i in x:
        y[i] = ti.tan(x[i])  # !


@refused("derivative of ti.random", "raises")
def random(x: A1, y: A1):
    for i in x:
        y[i] = x[i] * ti.random()  # !


@refused("derivative of ti.round", "raises")
def rounded(x: A1, y: A1):
    for i in x:
        y[i] = ti.round(x[i])  # !


@refused("derivative of ti.math.isnan", "raises")
def is_nan(x: A1, y: A1):
    for i in x:
        y[i] = x[i] * ti.math.isnan(x[i])  # !


@refused("derivative of ti.bit_cast", "raises")
def bits(x: A1, y: A1):
    for i in x:
        y[i] = ti.bit_cast(x[i], ti.i64) * 0.0  # !


@refused("derivative of ti.math.popcnt", "raises")
def population(x: A1, y: A1):
    for i in x:
        y[i] = ti.math.popcnt(i) * x[i]  # !


@refused("derivative of ti.atomic_max")
def largest(x: A1, y: A1):
    for i in x:
        ti.atomic_max(y[i // 2], x[i] ** 2)  # !


@refused("derivative of ti.atomic_min")
def smallest(x: A1, y: A1):
    for i in x:
        ti.atomic_min(y[i // 2], x[i] ** 2 - 5)  # !


@refused("derivative of ti.atomic_mul", writes=("y",))
def product(x: A1, y: A1):
    for i in x:
        ti.atomic_mul(y[i // 2], x[i] ** 2)  # !


@refused("derivative of ti.atomic_add", "raises")
def atomic_result(x: A1, y: A1):
    for i in x:
        old = ti.atomic_add(y[i], x[i] ** 2)  # !
        y[(i + 1) % 6] += old * 0


@refused("overwritten with values of it", writes=("y",))
def product_of_others(x: A1, y: A1):
    for i in x:
        y[i // 2] *= x[i] ** 2  # !


@refused("overwritten with values of it", writes=("y",))
def in_place_twice(x: A1, y: A1):
    for i in y:
        y[i] = y[i] ** 2 * x[i]  # !
        y[i] = y[i] ** 2


@refused("overwritten with values of it", writes=("y",))
def in_place_unrolled(x: A1, y: A1):
    for i in x:
        for _ in ti.static(range(2)):
            y[i] = y[i] * x[i]  # !


@refused("overwritten with values of it", writes={"y": "y", "z": "x"})
def in_place_read_after(x: A1, y: A1, z: A1):
    for i in y:
        y[i] = y[i] ** 2 * x[i]  # !
        z[i] = y[i] ** 2


@refused("overwritten with values of it", writes=("y",))
def sweep(x: A1, y: A1):
    ti.loop_config(serialize=True)
    for i in range(1, 6):
        y[i] = y[i - 1] * y[i] * x[i]  # !


@refused("read before its last write")
def two_loops_on_one_output(x: A1, y: A1):
    for i in x:
        y[i] = x[i] ** 2
    for i in x:
        y[i] = y[i] ** 2  # !


@refused("read before its last write")
def rewritten_output(x: A1, y: A1):
    for i in x:
        y[i] = x[i] ** 2
        y[i] = y[i] ** 2  # !


@refused("holds integers", writes={"y": "x", "n": "x"})
def counter(x: A1, y: A1, n: I1):
    for i in x:
        n[i] += i
        y[i] = x[n[i] % 6] ** 2  # !


@refused("not a constant")
def vector_read_at_an_index(x: A1, y: A1):
    for i in x:
        v = ti.Vector([x[i], x[i] ** 2, 1.0])
        s = 0.0
        for q in range(3):
            s += v[q] ** 2  # !
        y[i] = s


@refused("not a constant")
def vector_written_at_an_index(x: A1, y: A1):
    for i in x:
        v = ti.Vector([0.0, 0.0])
        v[i % 2] = x[i] ** 2  # !
        y[i] = v[0] + v[1]


@refused("not a constant", "crash")
def vector_as_a_buffer(x: A1, y: A1):
    for i in x:
        v = ti.Vector([0.0] * 4)
        for q in range(4):
            v[q] = x[(i + q) % 6]  # !
        s = 0.0
        for q in range(4):
            s += v[q] ** 2
        y[i] = s


@refused("inner loop beside other statements")
def sum_of_exponentials(x: A1, y: A1):
    for i in x:
        s = 0.0
        for j in range(5):  # !
            s += ti.exp(x[j] * x[i])
        y[i] = s


@refused("inner loop beside other statements")
def sum_in_a_function(x: A1, y: A1):
    for i in x:
        y[i] = gaussian_sum(i, x)


@refused("inner loop beside other statements")
def sum_of_tanh(x: A1, y: A1):
    for i in x:
        s = 0.0
        for j in range(5):  # !
            s += ti.tanh(x[j] * x[i])
        y[i] = s


@refused("inner loop beside other statements")
def sum_of_rsqrt(x: A1, y: A1):
    for i in x:
        s = 0.0
        for j in range(5):  # !
            s += ti.rsqrt(x[j] * x[i])
        y[i] = s


@refused("inner loop beside other statements")
def sum_of_maxima(x: A1, y: A1):
    for i in x:
        s = 0.0
        for j in range(5):  # !
            d = x[j] * x[i] - 0.6
            s += ti.max(d, 0.0)
        y[i] = s


@refused("inner loop beside other statements")
def factor_from_outside(x: A1, y: A1):
    for i in x:
        a = x[i] ** 2
        for j in range(6):  # !
            y[i] += a * x[j]


@refused("inner loop beside other statements")
def factor_of_a_sum(x: A1, y: A1):
    for i in x:
        a = x[i] ** 2
        s = 0.0
        for j in range(20):  # !
            s += a * x[j % 6]
        y[i] = s


@refused("inner loop beside other statements")
def factor_between_loops(x: A1, y: A1):
    for i in x:
        for j in range(10):
            e = ti.exp(x[j % 6])
            for q in range(10):  # !
                y[i] += e * x[q % 6]


@refused("inner loop beside other statements", "crash")
def statement_beside_inner_loop(x: A1, y: A1):
    for i in x:
        y[i] = ti.exp(x[i] * 2) * x[i]
        for j in range(50):  # !
            y[i] += ti.exp(x[j % 6] * x[i])


@refused("inner loop beside other statements", writes=("y",))
def in_place_constant_beside_inner_loop(x: A1, y: A1):
    for i in x:
        y[i] = 0.0
        for j in range(5):  # !
            y[i] += x[j] * x[i]


@refused("inner loop beside other statements")
def sum_under_an_if(x: A1, y: A1):
    for i in x:
        if x[i] > 0.6:
            s = 0.0
            for j in range(5):  # !
                s += x[j] * x[i]
            y[i] = s * s
        else:
            y[i] = x[i]


@refused("inner loop beside other statements")
def inner_sum_under_an_inner_if(x: A1, y: A1):
    for i in x:
        s = x[i]
        for j in range(3):  # !
            if x[j] + s > 0.9:
                y[i] += s
                for q in range(2):
                    s += 0.5 * ti.sin(1.3)
                    y[q] += s
                y[j] += s * s
            s = ti.sin(s) * 0.4 + ti.cos(x[j])
        y[i] += s * s


@refused("another iteration of the top-level loop may write")
def assigned_and_added_to(x: A1, y: A1):
    for i in x:
        for j in range(6):
            y[i] = x[i] * x[j]  # !
            y[j] += x[i] ** 2


@refused("another iteration of the top-level loop may write", reads=("x", "m"))
def assigned_through_an_index_array(x: A1, m: I1, y: A1):
    for i in x:
        y[m[i]] = x[i] ** 2  # !


@refused("inner loop beside other statements", "crash", reads=("x", "n"))
def unknown_trips(x: A1, n: int, y: A1):
    for i in x:
        s = x[i]
        for j in range(n):  # !
            s = s * s * 0.1 + x[j % 6]
        y[i] = s


@refused("inner loop beside other statements", "raises")
def triangle(x: A1, y: A1):
    for i in x:
        s = x[i]
        for j in range(4):  # !
            for q in range(j):
                s = s * s * 0.1 + x[q]
        y[i] = s


@refused("inner loop beside other statements", "crash")
def many_trips(x: A1, y: A1):
    for i in x:
        s = x[i]
        for j in range(40):  # !
            for q in range(40):
                s = s * s * 0.1 + x[(j + q) % 6]
        y[i] = s


@refused("inner loop beside other statements", "right")
def loop_under_an_if(x: A1, y: A1):
    if x[0] > 0.1:
        for i in range(1, 6):  # !
            y[i] = x[i] * x[i - 1]


@refused("inner loop beside other statements", "right")
def loop_under_an_if_that_is_decided_and_one_that_is_not(x: A1, y: A1):
    if x[0] > 0.1:  # noqa: SIM102 - the inner one is decided when Taichi compiles
        if ti.static(True):
            for i in range(1, 6):  # !
                s = x[i]
                y[i] = s * x[i - 1]


@refused("derivative of ti.math.eye", "right")
def unknown_operation(x: A1, y: A1):
    for i in x:
        y[i] = ti.math.eye(2)[0, 0] * x[i]  # !


@refused("inner loop beside other statements", "right")
def sum_of_products(x: A1, y: A1):
    for i in x:
        s = 0.0
        for j in range(5):  # !
            s += x[j] * x[i]
        y[i] = s


@refused("inner loop beside other statements", "right")
def one_sequential_sweep(x: A1, y: A1):
    for _ in range(1):
        s = 0.0
        for j in range(6):  # !
            s += x[j] ** 2
            y[j] = s


@refused("another iteration of the top-level loop may write")
def assigned_twice_in_an_unrolled_loop(x: A1, y: A1):
    ti.loop_config(serialize=True)
    for i in range(5):
        for q in ti.static(range(2)):
            y[i + q] = x[i] ** (q + 2)  # !


@refused("not a constant", "right")
def vector_read_by_a_function(x: A1, y: A1):
    for i in x:
        y[i] = entry(ti.Vector([x[i], x[i] ** 2, 1.0]), i % 2)


@refused("not a constant", "right")
def vector_read_at_an_entry_of_another(x: A1, y: A1):
    for i in x:
        v = ti.Vector([x[i], x[i] ** 2, 1.0])
        w = ti.Vector([i % 2, (i + 1) % 2])
        r = ti.Vector([v[q] for q in w])  # !
        y[i] = r[0] ** 2 + r[1]


@refused("not a constant", "raises")
def vector_read_at_a_changed_constant(x: A1, y: A1):
    for i in x:
        n = ti.static(0)
        v = ti.Vector([x[i], x[i] ** 2, 1.0])
        if x[i] > 0.7:
            n = 1
        y[i] = v[n] ** 2  # !


@refused("without an index", "raises")
def another_name(x: A1, y: A1):
    for i in x:
        z = y  # !
        z[i] = x[i] ** 2
        y[i] = z[i] ** 2


@refused("may write", writes={"y": (6,)})
def index_by_a_component(x: A2, y: A1):
    for cell in ti.grouped(ti.ndrange(6, 6)):
        y[cell.x] = x[cell] ** 2  # !


@refused("may write")
def index_by_a_comparison(x: A1, y: A1):
    for i in x:
        y[i > 3] = x[i] ** 2  # !
