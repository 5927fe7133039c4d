"""The certificate of a scene passes on right gradients and fails on planted faults; tests/certificate plants more in the engine."""

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DerivativeError, SceneError
from diffsim.losses import L2Misfit
from diffsim.scene.search.objective import Objective
from tests.scene.tiny import ACOUSTIC, DRIVEN, HEAT, WAVE, scene


def failed(base, **changes):
    return {line.name for line in scene(base, **changes).gradcheck() if line.passed is False}


@pytest.mark.parametrize("base", [ACOUSTIC, HEAT, WAVE, DRIVEN], ids=lambda base: base["name"])
def test_right_gradients_pass(base):
    lines_seen = []
    lines = scene(base).gradcheck(lines_seen.append)
    assert [line for line in lines if not line.passed] == []
    assert list(lines) == lines_seen
    names = [line.name for line in lines]
    for name in base["unknowns"]:
        assert f"dot product, {name}" in names
        assert f"jvp against vjp of the loss, {name}" in names
        assert f"Taylor with gradient, {name} near the edge" in names
    assert {f"Taylor with gradient, random {k}" for k in (1, 2, 3)} <= set(names)
    assert sum("against all stored" in name for name in names) >= 4


@pytest.mark.parametrize("base", [ACOUSTIC, HEAT, DRIVEN], ids=lambda base: base["name"])
def test_without_tangents_a_direction_of_each_unknown_judges(base, monkeypatch):
    """As where a function of a step has a reverse rule only."""

    def jvp(self, *arguments):
        raise DerivativeError("no forward rule")

    monkeypatch.setattr(ds.Simulation, "jvp", jvp)
    certificate = scene(base).gradcheck()
    assert certificate.passed, str(certificate)
    for name in base["unknowns"]:
        assert any(line.name == f"Taylor with gradient, {name} alone" and line.passed for line in certificate)
        assert [line.passed for line in certificate if line.name == f"dot product, {name}"] == [None]


def test_doubled_loss_term(monkeypatch):
    """A value without its gradient: no product of tangent and adjoint can see it, the Taylor test does."""
    right = L2Misfit.__call__

    def doubled(self, predicted):
        value = right(self, predicted)
        return value + ds.stop_gradient(value)

    monkeypatch.setattr(L2Misfit, "__call__", doubled)
    names = failed(ACOUSTIC)
    assert {f"Taylor with gradient, random {k}" for k in (1, 2, 3)} <= names
    assert all(name.startswith("Taylor with gradient") for name in names)


def test_more_steps_than_the_run_has():
    with pytest.raises(SceneError, match=r"certificate.steps: expected at most the 24 steps of the run, found 25; lower it"):
        scene(ACOUSTIC, certificate={"steps": 25}).gradcheck()


def test_fewer_steps():
    names = {line.name for line in scene(ACOUSTIC, certificate={"steps": 12}, truth__noise=0.5).gradcheck()}
    assert "8 slots against all stored" in names
    assert "13 slots against all stored" not in names


def test_no_variable_leaves_its_bounds(monkeypatch):
    """The search begins at a bound, and the loss is asked for nothing beyond."""
    seen = []
    right = Objective.value

    def value(self, theta):
        seen.append((theta, self.problem.unknowns.bounds()))
        return right(self, theta)

    monkeypatch.setattr(Objective, "value", value)
    unknowns = {"T": {"start": {"constant": 0.0}, "lower": 0.0, "upper": 0.5}, "kappa": HEAT["unknowns"]["kappa"]}
    certificate = scene(HEAT, unknowns=unknowns).gradcheck()
    assert certificate.passed, str(certificate)
    assert seen
    for theta, bounds in seen:
        assert np.all((theta >= bounds.lb) & (theta <= bounds.ub))


def test_a_run_that_fails_in_the_middle_keeps_its_lines(monkeypatch):
    def value(self, theta):
        raise MemoryError

    monkeypatch.setattr(Objective, "value", value)
    lines_seen = []
    certificate = scene(HEAT).gradcheck(lines_seen.append)
    assert list(certificate) == lines_seen and certificate.verdict == "cannot judge"
    stops = [line for line in certificate if "stopped by MemoryError: there is no more memory" in line.note]
    assert {"Taylor with gradient, random 1", "Taylor with gradient, T near the edge"} <= {line.name for line in stops}
    assert all(line.passed for line in certificate if line not in stops) and len(certificate) > len(stops) + 6


@pytest.mark.parametrize("factor", [1.001, 0.999])
def test_a_thousandth_in_the_adjoint_of_one_unknown(monkeypatch, factor):
    """A factor on the adjoint of all steps, so that dot products see it and differences of the loss do."""
    right = ds.Simulation.vjp

    def vjp(self, *arguments, **named):
        solution, pullback = right(self, *arguments, **named)
        return solution, lambda bars: {name: (factor if name == "kappa" else 1.0) * bar for name, bar in pullback(bars).items()}

    monkeypatch.setattr(ds.Simulation, "vjp", vjp)
    names = failed(HEAT)
    assert {"dot product, kappa", "jvp against vjp of the loss, kappa", "Taylor with gradient, kappa near the edge"} <= names
    assert {f"Taylor with gradient, random {k}" for k in (2, 3)} <= names  # along the first, kappa matters a ten-thousandth of T
    assert "dot product, T" not in names and "Taylor with gradient, T near the edge" not in names
