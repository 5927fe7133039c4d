"""Linear systems within a step: `python scripts/bench/solve.py [--quick] [--out FILE.json]`.

All figures are CPU times of one thread, medians of turns in which the contenders follow one another.

- Poisson's equation on 512 x 512 cells between walls by `method="direct"`, a whole time step with copies and boundaries, beside SciPy's
  cosine transforms of the same array in the same type.
- Conjugate gradients with multigrid for ∇·(k ∇p), log k normal, from cell to cell or smooth over some cells, beside those of pyamg with
  the multigrid of Ruge and Stüben, to the same residual. Preparing the matrix is apart: a loop in which k stays does it once. Without
  pyamg (`pip install --target FOLDER --no-deps pyamg`, PYTHONPATH=FOLDER) only diffsim is measured.
- Solutions with the transposed matrix beside those with the matrix.
- `BlockJacobi` beside the diagonal, with the number of products with each: an implicit step in layers that conduct 1000 times better along
  axis 1 than across, and a tracer in a closed cell of wind (Péclet number of a cell 10, upwind).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from common import Benchmark, Case, Figure, compare, main, median, ratios
from scipy import fft
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

import diffsim as ds
from diffsim.boundary import bound
from diffsim.expr import Symbol, laplacian
from diffsim.linear import System
from diffsim.linear.stencil import Stencil

try:
    import pyamg
except ImportError:
    pyamg = None

TRANSFORMS = 2.0
"""Times SciPy's transforms that a whole time step takes at most."""
TOLERANCE = 1e-8
CORRELATED = 4.0
"""Cells over which the smooth medium varies, the width of a Gaussian filter."""
OFFSETS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))


def cases(quick: bool) -> list[Case]:
    turns = 3 if quick else 7
    sizes = (256,) if quick else (256, 512, 1024)
    return [
        *({"what": "direct", "precision": precision, "turns": turns} for precision in ("f64", "f32")),
        *({"what": "cg", "n": n, "medium": medium, "turns": turns} for medium in ("noise", "smooth") for n in sizes),
        *({"what": "transposed", "method": method, "turns": turns} for method in ("tridiagonal", "direct", "cg", "bicgstab", "lu")),
        *({"what": "blocks", "problem": "layers", "block": block, "turns": turns} for block in ((1, 4), (1, 16), (1, 64))),
        *({"what": "blocks", "problem": "wind", "block": block, "turns": turns} for block in ((2, 2), (4, 4), (8, 8))),
    ]


def measure(case: Case) -> list[Figure]:
    return {"direct": _direct, "cg": _conjugate_gradients, "transposed": _transposed, "blocks": _blocks}[case["what"]](case)


class Poisson(ds.Equation):
    """Each step solves ∇²p_next = p."""

    def __init__(self, n: int) -> None:
        self.grid, self.dt = ds.Grid((n, n), spacing=1 / n), 1.0
        self.states = {"p": ds.Variable("mirror")}

    def step(self, p: Symbol) -> dict[str, Symbol]:
        return {"p": ds.solve(laplacian, p, "mirror", "direct")}


def _direct(case: Case) -> list[Figure]:
    n, few, many = 512, 1, 21
    ds.init(precision=case["precision"], threads=1)
    simulation = ds.Simulation(Poisson(n))
    right_side = np.random.default_rng(0).standard_normal((n, n))
    right_side = (right_side - right_side.mean()).astype(case["precision"].replace("f", "float"))
    along = n**2 * (2 * np.cos(np.pi * np.arange(n) / n) - 2)
    numbers = (along[:, None] + along).astype(right_side.dtype)
    numbers[0, 0] = 1

    def by_scipy() -> np.ndarray:
        hat = fft.dctn(right_side, norm="ortho")
        hat /= numbers
        hat[0, 0] = 0
        return fft.idctn(hat, norm="ortho", overwrite_x=True)

    compare("direct", simulation.run({"p": right_side}, 1).final["p"], by_scipy(), 1e-10 if case["precision"] == "f64" else 1e-5)
    seconds = _in_turns(
        {
            "few": lambda: simulation.run({"p": right_side}, few),
            "many": lambda: simulation.run({"p": right_side}, many),
            "scipy": lambda: [by_scipy() for _ in range(many - few)],
        },
        case["turns"],
    )
    ours = [(m - f) / (many - few) for m, f in zip(seconds["many"], seconds["few"], strict=True)]
    theirs = [s / (many - few) for s in seconds["scipy"]]
    name = f"direct: step of Poisson, {n} x {n}, {case['precision']}, beside SciPy"
    return [Figure(name, median(ours) * 1e3, "ms", median(theirs) * 1e3, *ratios(ours, theirs), bound="most", target=TRANSFORMS)]


def _medium(n: int, kind: str) -> list[np.ndarray]:
    """Weights of -∇·(k ∇p) with p = 0 beyond the sides."""
    log = np.random.default_rng(0).standard_normal((n, n))
    if kind == "smooth":
        log = gaussian_filter(log, CORRELATED, mode="wrap")
        log /= log.std()
    k = np.pad(np.exp(log), 1, mode="edge")
    inside = k[1:-1, 1:-1]
    beside = [0.5 * (inside + other) for other in (k[:-2, 1:-1], k[2:, 1:-1], k[1:-1, :-2], k[1:-1, 2:])]
    return [sum(beside), *(-part for part in beside)]  # type: ignore[list-item]


def _system(method: str, tolerance: float | None = None) -> System:
    return System(OFFSETS, bound(("zero", "zero"), (0, 0), (1.0, 1.0)), method, tolerance)  # type: ignore[arg-type]


def _conjugate_gradients(case: Case) -> list[Figure]:
    n, weights = case["n"], _medium(case["n"], case["medium"])
    right_side = np.random.default_rng(1).standard_normal((n, n))
    matrix = Stencil((n, n), OFFSETS, _system("cg").rules).matrix(weights)
    prepared = _system("cg", TOLERANCE)
    prepared.solve(weights, right_side)
    contenders: dict[str, Callable[[], object]] = {
        "new": lambda: _system("cg", TOLERANCE).solve(weights, right_side),
        "again": lambda: prepared.solve(weights, right_side),
    }
    residuals = [np.linalg.norm(right_side.ravel() - matrix @ prepared.solve(weights, right_side).ravel())]
    if pyamg is not None:
        peer = pyamg.ruge_stuben_solver(matrix)
        contenders["peer new"] = lambda: pyamg.ruge_stuben_solver(matrix)
        contenders["peer again"] = lambda: peer.solve(right_side.ravel(), accel="cg", tol=TOLERANCE)
        residuals.append(np.linalg.norm(right_side.ravel() - matrix @ peer.solve(right_side.ravel(), accel="cg", tol=TOLERANCE)))
    if not max(residuals) <= 1.01 * TOLERANCE * np.linalg.norm(right_side):
        raise SystemExit(f"cg: expected residuals of at most {TOLERANCE:.0e} of the right side, got {residuals}")
    seconds = _in_turns(contenders, case["turns"])
    setup = [max(new - again, 0.0) for new, again in zip(seconds["new"], seconds["again"], strict=True)]
    name = f"cg: {n} x {n}, log k {case['medium']}"
    return [
        _beside(f"{name}, set-up, beside pyamg", setup, seconds.get("peer new")),
        _beside(f"{name}, solution, beside pyamg", seconds["again"], seconds.get("peer again")),
    ]


def _beside(name: str, ours: list[float], theirs: list[float] | None) -> Figure:
    if theirs is None:
        return Figure(name, median(ours), "s")
    return Figure(name, median(ours), "s", median(theirs), *ratios(ours, theirs), bound="most", target=1.0)


def _transposed(case: Case) -> list[Figure]:
    method, n = case["method"], 128 if case["method"] == "lu" else 256
    weights: list[float | np.ndarray] = [1.0 + 2.0, -0.5, -0.5, -0.5, -0.5]
    if method != "direct":
        weights = [values if offset else values + 0.1 for offset, values in enumerate(_medium(n, "smooth"))]
    offsets = OFFSETS
    if method == "tridiagonal":
        offsets, weights = OFFSETS[:3], [weights[0], *weights[1:3]]
    elif method == "bicgstab":
        weights[1] = weights[1] * 0.7
    rng = np.random.default_rng(2)
    right_side = rng.standard_normal((n, n))
    system = System(offsets, bound(("zero", "zero"), (0, 0), (1.0, 1.0)), method, TOLERANCE)
    for transposed in (False, True):
        system.solve(weights, right_side, transposed)
    seconds = _in_turns(
        {name: lambda t=name == "transposed": system.solve(weights, right_side, t) for name in ("as it is", "transposed")},  # type: ignore[misc]
        3 * case["turns"],
    )
    ours, theirs = seconds["transposed"], seconds["as it is"]
    name = f"{method}: {n} x {n}, transposed beside as it is"
    return [Figure(name, median(ours) * 1e3, "ms", median(theirs) * 1e3, *ratios(ours, theirs), bound="most", target=1.1)]


class Counted:
    """A preconditioner that counts its products."""

    def __init__(self, given: Callable[..., LinearOperator]) -> None:
        self.given, self.count = given, 0

    def __call__(self, matrix: csr_array, shape: tuple[int, ...]) -> LinearOperator:
        near = self.given(matrix, shape)

        def product(x: np.ndarray) -> np.ndarray:
            self.count += 1
            return near.matvec(x)

        return LinearOperator(matrix.shape, product)


def _diagonal(matrix: csr_array, shape: tuple[int, ...]) -> LinearOperator:
    scale = 1 / matrix.diagonal()
    return LinearOperator(matrix.shape, lambda x: scale * x.ravel())


def _problem(name: str, n: int) -> tuple[str, list[float | np.ndarray]]:
    """The method, and weights at the cell itself, before and behind it along axis 0, and along axis 1."""
    if name == "layers":
        return "cg", [10.0 + 2 * 1.0 + 2 * 1000.0, -1.0, -1.0, -1000.0, -1000.0]
    x, y = np.meshgrid(*2 * [np.pi * (np.arange(n) + 0.5) / n], indexing="ij")
    wind = 10.0 * np.sin(x) * np.cos(y), -10.0 * np.cos(x) * np.sin(y)
    beside = [part for u in wind for part in (-1 - np.maximum(u, 0), -1 + np.minimum(u, 0))]
    return "bicgstab", [0.05 - sum(beside), *beside]  # type: ignore[list-item]


def _blocks(case: Case) -> list[Figure]:
    n, block = 256, case["block"]
    method, weights = _problem(case["problem"], n)
    right_side = np.random.default_rng(3).standard_normal((n, n))
    preconditioners = {"blocks": Counted(ds.BlockJacobi(block)), "diagonal": Counted(_diagonal)}
    contenders: dict[str, Callable[[], object]] = {}
    for name, preconditioner in preconditioners.items():
        system = System(OFFSETS, bound(("zero", "zero"), (0, 0), (1.0, 1.0)), method, TOLERANCE, preconditioner)  # type: ignore[arg-type]
        contenders[name] = lambda system=system: system.solve(weights, right_side)  # type: ignore[misc]
        contenders[name]()
    products = {name: preconditioner.count for name, preconditioner in preconditioners.items()}
    seconds = _in_turns(contenders, case["turns"])
    ours, theirs = seconds["blocks"], seconds["diagonal"]
    name = f"{case['problem']}: blocks {block} beside the diagonal, {products['blocks']} products beside {products['diagonal']}"
    return [Figure(name, median(ours) * 1e3, "ms", median(theirs) * 1e3, *ratios(ours, theirs))]


def _in_turns(contenders: dict[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """CPU seconds of each contender, each once a turn, for `turns` turns after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, contender in contenders.items():
            begin = time.process_time()
            contender()
            if turn:
                seconds[name].append(time.process_time() - begin)
    return seconds


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
