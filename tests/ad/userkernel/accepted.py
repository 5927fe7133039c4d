"""Kernels that Taichi differentiates rightly, one for each construct; each is let through and compared with differences."""

import diffsim as ds
from diffsim.ad.userkernel import UserKernel
from tests.language import ti

A0 = ti.types.ndarray(dtype=ti.f64, ndim=0)
A1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
A2 = ti.types.ndarray(dtype=ti.f64, ndim=2)
I1 = ti.types.ndarray(dtype=ti.i32, ndim=1)
TWO = 2

KERNELS: list[UserKernel] = []


def accepted(reads=("x",), writes=None):
    def decorate(function):
        kernel = ds.kernel(reads=reads, writes=writes or {"y": "x"})(function)
        KERNELS.append(kernel)
        return kernel

    return decorate


@ti.func
def bump(a, b):
    d = a - b
    r = ti.exp(-d * d)
    if d > 0.1:
        r = r * r
    return r


@ti.func
def kinked(a):
    r = a * a
    if a > 0.5:
        r = a * r
    return r


@ti.func
def neighbours(i, field: ti.template()):
    total = 0.0
    for j in ti.static(range(5)):
        total += field[j] * field[i]
    return total


@ti.func
def at(v, q: ti.template()):
    return v[q] * v[0]


@accepted()
def struct_for(x: A1, y: A1):
    for i in x:
        y[i] = x[i] ** 2 * ti.sin(x[i])


@accepted()
def grouped(x: A2, y: A2):
    for cell in ti.grouped(ti.ndrange((1, 5), (1, 5))):
        y[cell] = x[cell + ti.Vector([1, 0])] * x[cell - ti.Vector([0, 1])]


@accepted()
def grouped_array(x: A2, y: A2):
    for cell in ti.grouped(x):
        y[cell] = x[cell] ** 2


@accepted()
def made_matrices(x: A1, y: A1):
    for i in x:
        f = ti.Matrix.identity(ti.f64, 2) + x[i] * ti.Matrix([[0.0, 1.0], [2.0, 0.5]])
        g = ti.Matrix.rows([ti.Vector([x[i], 1.0]), ti.Vector.unit(2, 1, ti.f64)])
        v = ti.Vector([1.0, x[i]])
        v.fill(x[i])
        y[i] = (f @ g @ ti.Matrix.diag(2, x[i])).determinant() + v.sum()


@accepted()
def steps_of_a_number(x: A1, y: A1):
    for i in x:
        y[i] = ti.math.mod(x[i], 0.25) * x[i] + ti.math.step(0.9, x[i])
        if (ti.Vector([x[i], x[i] + 1.0]) > 0.5).any():
            y[i] += x[i] ** 2


@accepted()
def comprehension_and_static_loop(x: A1, y: A1):
    for i in x:
        v = ti.Vector([x[i] ** (q + 1) for q in range(3)])
        for q in ti.static(range(3)):
            y[i] += v[q] * x[(i + q) % 6]


@accepted()
def ndrange(x: A2, y: A2):
    for i, j in ti.ndrange(6, (1, 5)):
        y[i, j] = x[i, j - 1] * x[i, j + 1]


@accepted(writes={"y": ()})
def zero_axes(x: A1, y: A0):
    for i in x:
        y[None] += x[i] ** 2


@accepted()
def settings_and_assertions(x: A1, y: A1):
    """A docstring stays."""
    ti.loop_config(serialize=True)
    for i in range(x.shape[0]):
        assert x[i] > -10.0
        y[i] = x[i] ** TWO


@accepted()
def static_statement_before_loop(x: A1, y: A1):
    n = ti.static(5)
    for i in range(n):
        y[i] = x[i] ** 2


@accepted()
def statements_only(x: A1, y: A1):
    y[0] = x[0] ** 2
    y[1] = x[1] * x[0]
    if x[2] > 0.1:
        y[2] = x[2] ** 3


@accepted()
def nested_if(x: A1, y: A1):
    for i in x:
        a = x[i]
        if a > 0.5:
            if a > 1.0:
                y[i] = a * a
            else:
                y[i] = a**3
        else:
            y[i] = ti.exp(a)


@accepted()
def conditional_expression(x: A1, y: A1):
    for i in x:
        d = x[i] - 0.7
        y[i] = ti.sqrt(d) if d > 0 else 0.0


@accepted()
def plain_select(x: A1, y: A1):
    for i in x:
        y[i] = ti.select(x[i] > 0.7, x[i] ** 2, x[i] / 3.0)


@accepted()
def changed_local(x: A1, y: A1):
    for i in x:
        a = x[i]
        if a > 0.5:
            a = a * a
        a *= x[i]
        y[i] = a


@accepted()
def static_loop(x: A1, y: A1):
    for i in x:
        s = 0.0
        for q in ti.static(range(4)):
            if ti.static(q == 2):
                continue
            s += x[i] ** q * x[(i + q) % 6]
        y[i] = ti.exp(s)


@accepted()
def function(x: A1, y: A1):
    for i in x:
        y[i] = bump(x[i], 0.3)


@accepted()
def cell_operations(x: A1, y: A1):
    for i in x:
        a = x[i]
        y[i] = ti.max(a - 0.7, 0.0) ** 2 + min(a, 0.8) + ti.rsqrt(a) + ti.tanh(a) + ti.atan2(a, 2.0) + ti.floor(a) * a + a % 0.37
        y[i] += ti.acos(a * 0.3) + ti.log(a) + abs(a - 0.6) + ti.math.clamp(a, 0.5, 0.9) + ti.math.sign(a - 0.7) * a + ti.pow(a, a)


@accepted(writes={"y": "x", "z": "x"})
def output_read_by_a_later_loop(x: A1, y: A1, z: A1):
    for i in x:
        y[i] = x[i] ** 2
    for i in range(1, 6):
        z[i] = y[i] ** 2 * y[i - 1]


@accepted(writes={"y": "x", "z": "x"})
def output_read_in_its_own_cell(x: A1, y: A1, z: A1):
    for i in x:
        y[i] = x[i] ** 2
        z[i] = y[i] ** 2


@accepted()
def overwritten_stores(x: A1, y: A1):
    for i in x:
        y[i] += x[i] ** 3
        y[i] = x[i] ** 2
        y[i] -= x[i] ** 4


@accepted()
def atomics(x: A1, y: A1):
    for i in x:
        ti.atomic_add(y[i // 2], x[i] ** 2)
        ti.atomic_sub(y[3], x[i] ** 3)


@accepted(reads=("x", "k", "n"))
def numbers(x: A1, k: ti.f64, n: int, y: A1):
    for i in x:
        s = 0.0
        for j in ti.static(range(4)):
            s = s * k + x[j] * x[(i + n) % 6]
        y[i] = s * k


@accepted(reads=("x",), writes=("y",))
def in_place_cell_by_cell(x: A1, y: A1):
    for i in y:
        if x[i] > 0.6:
            y[i] = y[i] ** 2 * x[i]


@accepted(reads=("x",), writes=("y",))
def in_place_scaled(x: A1, y: A1):
    for i in y:
        y[i] *= x[i]


@accepted(reads=("x",), writes=("y",))
def in_place_added_to(x: A1, y: A1):
    for i in x:
        y[i // 2] += x[i] ** 2


@accepted(reads=("x",), writes=("y",))
def in_place_overwritten_in_part(x: A1, y: A1):
    for i in range(3):
        y[i] = x[i] ** 2


@accepted()
def vectors(x: A1, y: A1):
    for i in x:
        v = ti.Vector([x[i], x[i] ** 2])
        v += ti.Vector([x[i], 1.0])
        v[0] += x[i]
        v[1] = v[1] * v[0]
        y[i] = v.norm() + v.normalized()[0] + v.dot(ti.math.vec2(1.0, x[i])) + ti.math.cross(v, ti.math.vec2(2.0, x[i]))


@accepted()
def swizzles(x: A1, y: A1):
    for i in x:
        v = ti.math.vec2(x[i], 1.0)
        v.y = x[i] ** 2
        y[i] = v.x * v.y + v.yx.dot(v)


@accepted()
def matrices(x: A1, y: A1):
    for i in x:
        m = ti.Matrix([[x[i], 0.3], [x[(i + 1) % 6], 2.0]])
        n = m @ m.transpose()
        rotation, stretch = ti.polar_decompose(m)
        left, singular, right = ti.svd(m)
        y[i] = m.determinant() * n.trace() + m.inverse()[0, 1] + stretch[0, 0] * rotation[0, 1] + singular[0, 0] * left[0, 0] * right[0, 0]


@accepted()
def independent_inner_loop(x: A1, y: A1):
    for i in x:
        for j in range(100):
            d = x[j % 6] - x[i]
            w = ti.exp(-d * d)
            if d > 0.1:
                w = w * d
            y[i] += w + ti.tanh(d) + ti.max(d, 0.1)


@accepted(reads=("x", "m"))
def independent_loop_with_bounds_from_an_array(x: A1, m: I1, y: A1):
    for i in x:
        for j in range(m[i], m[i] + 3):
            y[i] += ti.exp(x[j % 6] * x[i])


@accepted()
def independent_nest(x: A1, y: A1):
    for i in x:
        for j in range(i):
            for q in range(j):
                y[i] += x[q] * x[j] * x[i]


@accepted()
def independent_loop_calls_a_function(x: A1, y: A1):
    for i in x:
        for j in range(40):
            y[i] += bump(x[i], x[j % 6])


@accepted()
def cells_of_rows(x: A2, y: A2):
    for i in range(5):
        y[i, 0] = x[i, 0] ** 2
        y[i, 1] = x[i + 1, 0] * x[i, 2]


@accepted()
def static_loop_with_branches(x: A1, y: A1):
    for i in x:
        s = x[i]
        for j in ti.static(range(6)):
            if s > 0.7 and x[j] > 0.6:
                s = s * s * 0.3
            elif j != 2:
                e = s * x[j]
                s = s + e * e
            s = kinked(s) if s > 0.2 else s
        y[i] = s


@accepted()
def static_loop_with_operations(x: A1, y: A1):
    for i in x:
        s = 0.0
        for j in ti.static(range(5)):
            d = x[j] - x[i]
            w = d * d + 0.1
            s += 1 / w + ti.sqrt(w) * ti.sin(d) + ti.log(w) * ti.cos(d) + w**3 + ti.abs(d) * d + ti.atan2(w, d) + ti.select(d > 0, d * w, w)
        y[i] = s


@accepted()
def static_loop_with_vectors(x: A1, y: A1):
    for i in x:
        s = ti.Vector([0.0, x[i]])
        for j in ti.static(range(5)):
            d = ti.Vector([x[j], x[i] * x[j]])
            s += d * d.norm_sqr()
        y[i] = s.norm()


@accepted()
def static_loop_in_a_function(x: A1, y: A1):
    for i in x:
        y[i] = neighbours(i, x) ** 2


@accepted()
def carried_integer(x: A1, y: A1):
    for i in x:
        c = 0
        s = 0.0
        for j in ti.static(range(5)):
            if x[j] > 0.7:
                c += 1
            s += x[c % 6] ** 2
        y[i] = s


@accepted(reads=("x", "m"))
def edges(x: A1, m: I1, y: A1):
    for e in m:
        d = x[e] - x[m[e]]
        y[m[e]] += ti.exp(-d * d)


@accepted()
def loop_under_a_static_if(x: A1, y: A1):
    if ti.static(TWO == 2):
        for i in x:
            y[i] = x[i] ** TWO


@accepted()
def vector_in_a_function(x: A1, y: A1):
    for i in x:
        y[i] = at(ti.Vector([x[i], x[i] ** 2]), 1)
