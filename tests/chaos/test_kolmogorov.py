"""Kolmogorov's flow: an independent spectral program, the balance of energy, and where the laminar flow becomes unstable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, StabilityError

Array = np.ndarray


def flow(cells: int, dt: float, waves: int, **options: Any) -> ds.Simulation:
    equation = ds.solvers.Kolmogorov(ds.Grid((cells, cells), spacing=2 * np.pi / cells), dt, waves)
    return ds.Simulation(equation, precision="f64", **options)


def start(cells: int) -> Array:
    x = np.arange(cells) * 2 * np.pi / cells
    return np.cos(x + 1) * np.sin(x[:, None]) + 0.5 * np.sin(2 * x - x[:, None]) + 0.3 * np.cos(3 * x[:, None])


def spectral(omega: Array, Re: float, waves: int, dt: float, steps: int) -> Array:
    """The same equation in a square of 2 π by Fourier series, without the highest third of the waves, and by rk4."""
    n = len(omega)
    ky, kx = np.fft.fftfreq(n, 1 / n)[:, None], np.fft.rfftfreq(n, 1 / n)[None]
    square, keep = ky**2 + kx**2, (abs(ky) < n / 3) & (kx < n / 3)
    inverse = -1 / np.where(square > 0, square, np.inf)
    force = np.fft.rfft2(-waves * np.cos(waves * np.arange(n) * 2 * np.pi / n)[:, None] * np.ones((1, n)))

    def slope(k: Array, spectrum: Array) -> Array:
        return np.fft.irfft2(1j * k * spectrum, s=(n, n))

    def rate(spectrum: Array) -> Array:
        psi = inverse * spectrum
        carried = -slope(ky, psi) * slope(kx, spectrum) + slope(kx, psi) * slope(ky, spectrum)
        return keep * (force - np.fft.rfft2(carried) - square * spectrum / Re)

    spectrum = keep * np.fft.rfft2(omega)
    for _ in range(steps):
        k1 = rate(spectrum)
        k2 = rate(spectrum + 0.5 * dt * k1)
        k3 = rate(spectrum + 0.5 * dt * k2)
        spectrum = spectrum + dt / 6 * (k1 + 2 * k2 + 2 * k3 + rate(spectrum + dt * k3))
    return np.fft.irfft2(spectrum, s=(n, n))


def test_it_comes_to_that_of_a_spectral_program_with_the_square_of_the_spacing() -> None:
    wanted = spectral(start(48), 20.0, 2, 0.02, 50)[::2, ::2]
    errors = []
    for cells in (24, 48):
        final = flow(cells, 0.02, 2).run({"omega": 0.7 + start(cells), "Re": 20.0}, 50).final["omega"]  # the mean is removed
        assert abs(final.mean()) < 1e-13
        errors.append(np.abs(final[:: cells // 24, :: cells // 24] - wanted).max())
    assert errors[1] < 0.012 and np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15), errors  # measured 0.00997 and 1.99


def test_the_force_gives_and_viscosity_takes_all_energy() -> None:
    """dE/dt = <-ψ f> - <ω²> / Re with E = <-ψ ω> / 2, for Arakawa's Jacobian; the integral is that of Simpson."""
    n, dt, Re = 16, 0.02, 15.0
    cells = [[2 * np.pi / n * i, 2 * np.pi / n * j] for i in range(n) for j in range(n)]
    omega = flow(n, dt, 2, receivers={"omega": cells}).run({"omega": start(n), "Re": Re}, 200).traces["omega"].reshape(-1, n, n)
    waves = 2 - 2 * np.cos(2 * np.pi * np.fft.fftfreq(n))
    minus = (waves[:, None] + waves) * (n / (2 * np.pi)) ** 2
    psi = np.fft.ifft2(-np.fft.fft2(omega) / np.where(minus > 0, minus, np.inf)).real
    force = -2 * np.cos(2 * np.arange(n) * 2 * np.pi / n)[:, None]
    gain, loss, energy = (-psi * force).mean((1, 2)), (omega**2).mean((1, 2)) / Re, (-psi * omega).mean((1, 2)) / 2
    weights = np.r_[1, np.tile([4, 2], 99), 4, 1] * dt / 3
    assert abs(energy[-1] - energy[0] - weights @ (gain - loss)) < 1e-7 and abs(energy[-1] - energy[0]) > 0.05


def growth(R: float, alpha: float) -> float:
    """The largest growth rate of a wave exp(iαx) on the laminar flow of U / (ν k) = R, with k = 1, by a series in y."""
    m, Re = np.arange(-12, 13), R**0.5
    square = m**2 + alpha**2
    matrix = np.diag(-square / Re).astype(complex)
    shift = -1j * alpha * Re * (1 - 1 / square) / 2j  # -iα U (ω + ψ) with U = Re sin y, of the wave m
    matrix += np.diag(shift[:-1], -1) - np.diag(shift[1:], 1)
    return float(np.linalg.eigvals(matrix).real.max())


def test_the_laminar_flow_is_unstable_to_long_waves_from_the_root_of_two_on() -> None:
    """Meshalkin and Sinai (1961): U / (ν k) > √2."""
    assert growth(1.40, 0.02) < 0 < growth(1.43, 0.02)  # the closed form, for the series itself
    alpha, shape = 0.25, (16, 24)
    grid = ds.Grid(shape, spacing=(2 * np.pi / 16, 2 * np.pi / alpha / 24))
    system = ds.Simulation(ds.solvers.Kolmogorov(grid, dt=0.08, waves=1), precision="f64")
    minus = (2 * np.sin(np.pi / 16) / grid.spacing[0]) ** 2  # of the second difference across the flow
    measured = []
    for R in (1.2, 1.9):
        laminar = -(R**0.5) / minus * np.cos(grid.coordinates(0))[:, None]
        wave = 1e-6 * np.cos(alpha * grid.coordinates(1))
        sizes = []
        omega = laminar + wave
        for _ in range(3):
            omega = system.run({"omega": omega, "Re": R**0.5}, 150).final["omega"]
            sizes.append(np.linalg.norm(omega - laminar))
        measured.append(np.log(sizes[2] / sizes[1]) / 12.0)
    wanted = [growth(R, alpha) for R in (1.2, 1.9)]
    assert wanted[0] < -0.02 and wanted[1] > 0.02 and np.abs(np.subtract(measured, wanted)).max() < 1e-3, (measured, wanted)


@pytest.mark.slow
def test_chaotic_flow_dissipates_as_that_of_the_spectral_program_and_bursts() -> None:
    """Four waves at Re 40 in a square: the mean of ω² over 800 units of time, and its greatest values."""
    cells, averages = 48, []
    seen: list[float] = []

    def watch(done: int, states: Any) -> None:
        seen.append(float(np.mean(np.asarray(states["omega"]) ** 2)))

    system = flow(cells, 0.05, 4)
    begin = system.run({"omega": start(cells), "Re": 40.0}, 4000).final["omega"]
    system.run({"omega": begin, "Re": 40.0}, 16_000, every=10, watch=watch)
    averages.append(np.mean(seen))
    assert max(seen) > 1.6 * averages[0] and averages[0] / 40 < 0.2 * 40 / 32  # bursts; a small part of the laminar dissipation
    omega, other = spectral(start(cells), 40.0, 4, 0.05, 4000), []
    for _ in range(1600):
        omega = spectral(omega, 40.0, 4, 0.05, 10)
        other.append(np.mean(omega**2))
    assert abs(averages[0] / np.mean(other) - 1) < 0.15, (averages[0], np.mean(other))
    exponents = ds.chaos.lyapunov(system, {"omega": begin, "Re": 40.0}, steps=20, laps=200, count=1)
    assert 0.05 < exponents.values[0] < 0.3


@pytest.mark.slow
def test_its_gradient_is_exact() -> None:
    system = flow(8, 0.05, 2)
    report = ds.certify(system, lambda solution: (solution.final["omega"] ** 4).sum(), {"omega": start(8), "Re": 10.0}, 6)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ds.solvers.Kolmogorov(ds.Grid((16,), 1.0), 0.1), "grid of 1 axes, expected two"),
        (lambda: ds.solvers.Kolmogorov(ds.Grid((8, 8), 1.0), 0.1, waves=4), "waves = 4"),
        (lambda: flow(16, 0.05, 2).run({"omega": start(16), "Re": 0.0}, 1), "Re"),
        (lambda: flow(16, 0.5, 2).run({"omega": start(16), "Re": 5.0}, 1), "dt = 0.5"),
    ],
    ids=["line", "waves", "sign", "dt"],
)
def test_errors_say_what_is_expected(wrong: Any, message: str) -> None:
    with pytest.raises((ParameterError, StabilityError), match=message):
        wrong()
