"""Drag of a cylinder on finer and finer grids: the channels 2D-1 and 2D-2 of Schäfer and Turek, and the box of Mosaic's drag task.

    python scripts/bench/flow.py box 32 64 128 256
    python scripts/bench/flow.py channel 41 82 123
    python scripts/bench/flow.py vortices 41 82 123
    python scripts/bench/flow.py channel 41 82 --penalised

The numbers are cells: across the box of 1 m, and across the channel of 0.41 m. docs/validation_flow.md has the table.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import diffsim as ds
from diffsim.solvers import NavierStokes, bodies


def channel(
    cells: int, top: float = 0.3, outlet: str = "open", courant: float = 0.25
) -> tuple[NavierStokes, dict, tuple[float, float], float, float]:
    """Equation, inputs, centre of the cylinder, mean speed, and the time that is simulated."""
    h, height = 0.41 / cells, 0.41
    grid = ds.Grid((cells, round(2.2 / h)), h, origin=h / 2)
    y = h * np.arange(cells + 1)
    inflow = np.diff(4 * top / height**2 * (height * y**2 / 2 - y**3 / 3)) / h  # means over cells
    equation = NavierStokes(grid, _step(h, 0.25 / courant * top, 1e-3), ("no_slip", ("inflow", outlet)), bodies="fixed")
    return equation, {"nu": 1e-3, "inflow": inflow}, (0.2, 0.2), 2 / 3 * top, 12.0 if outlet == "open" else 7.0


def vortices(cells: int) -> tuple[NavierStokes, dict, tuple[float, float], float, float]:
    """The same at Re = 100, where vortices leave."""
    return channel(cells, 1.5, "outflow", 0.3)


def box(cells: int) -> tuple[NavierStokes, dict, tuple[float, float], float, float]:
    """The same. The flow enters with 0.5 m/s everywhere, and leaves freely, between walls without slip."""
    h, speed = 1 / cells, 0.5
    grid = ds.Grid((cells, cells), h, origin=h / 2)
    equation = NavierStokes(grid, _step(h, 0.8 * speed, 2.5e-3), ("no_slip", ("inflow", "open")), bodies="fixed")
    return equation, {"nu": 2.5e-3, "inflow": np.full(cells, speed)}, (0.5, 0.5), speed, 12.0


def _step(h: float, speed: float, nu: float) -> float:
    """A stable time step."""
    return min(0.25 * h / speed, 0.9 * 2.51 * h**2 / (8 * nu))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flow", choices=("channel", "vortices", "box"))
    parser.add_argument("cells", type=int, nargs="+")
    parser.add_argument("--penalised", action="store_true")
    chosen = parser.parse_args()
    for cells in chosen.cells:
        begin = time.process_time()
        equation, inputs, centre, speed, end = {"channel": channel, "vortices": vortices, "box": box}[chosen.flow](cells)
        if chosen.penalised:
            equation = NavierStokes(equation.grid, equation.dt, equation.sides, bodies="fixed", bodies_method="penalised")
        grid, diameter = equation.grid, 0.1
        inputs |= {"phi": bodies.cylinder(grid, centre, diameter / 2), "u": np.repeat(inputs["inflow"][:, None], grid.shape[1], 1)}
        simulation = ds.Simulation(equation, receivers={"force_x": [centre], "force_y": [centre]}, wrt=[], precision="f64")
        steps = round(end / equation.dt)
        solution = simulation.run(inputs, steps)
        scale = 2 / (speed**2 * diameter)
        drag = scale * solution.traces["force_x"][:, 0]
        early = drag[(np.arange(steps + 1) * equation.dt > 2) & (np.arange(steps + 1) * equation.dt <= 4)].mean()
        if chosen.flow == "vortices":
            _print_waves(cells, equation.dt, drag, scale * solution.traces["force_y"][:, 0], time.process_time() - begin)
            continue
        lift, pressure = scale * solution.final["force_y"], np.diff(_ends(grid, solution.final["p"], centre, diameter))[0]
        print(
            f"{cells} cells, {diameter / grid.spacing[0]:.1f} across: c_d {drag[-1]:.4f} (mean from 2 s to 4 s: {early:.4f}), "
            f"c_l {lift:.5f}, difference of pressure {pressure:.5f}; {steps} steps, {time.process_time() - begin:.0f} s",
            flush=True,
        )


def _print_waves(cells: int, dt: float, drag: np.ndarray, lift: np.ndarray, seconds: float) -> None:
    """Largest drag and lift, and the Strouhal number, of the last 1.5 s."""
    late = slice(-round(1.5 / dt), None)
    drag, lift = drag[late], lift[late]
    rises = np.flatnonzero((lift[:-1] <= 0) & (lift[1:] > 0))
    times = dt * (rises - lift[rises] / (lift[rises + 1] - lift[rises]))
    strouhal = 0.1 * (len(times) - 1) / (times[-1] - times[0])
    print(
        f"{cells} cells, {cells / 4.1:.0f} across: c_d {drag.min():.4f} to {drag.max():.4f}, c_l {lift.min():.4f} to {lift.max():.4f}, "
        f"Strouhal number {strouhal:.4f}; {seconds:.0f} s",
        flush=True,
    )


def _ends(grid: ds.Grid, p: np.ndarray, centre: tuple[float, float], diameter: float) -> list[float]:
    """Pressure behind and in front of the cylinder, a parabola through the three values next to it."""
    x = grid.coordinates(1)
    row = np.array([np.interp(centre[0], grid.coordinates(0), column) for column in p.T])
    out = []
    for sign in (1, -1):
        away = sign * (x - centre[1]) - diameter / 2
        near = np.argsort(np.where(away > 0.4 * grid.spacing[1], away, np.inf))[:3]
        out.append(float(np.polyval(np.polyfit(away[near], row[near], 2), 0.0)))
    return out


if __name__ == "__main__":
    main()
