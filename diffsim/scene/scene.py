"""A scene as an object: load it or build it, evaluate it, run it, check its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import path_of
from diffsim.base.messages import path_shown
from diffsim.certificate import Certificate, Line
from diffsim.checkpoint import Plan
from diffsim.engine import settings
from diffsim.errors import SceneError
from diffsim.scene.disk.outcome import Outcome
from diffsim.scene.disk.progress import Watcher
from diffsim.scene.run import run_scene
from diffsim.scene.schema.load import find_scene, read_scene, validated
from diffsim.scene.schema.schema import Description
from diffsim.scene.search.assemble import Problem, assemble
from diffsim.scene.search.certificate import certify
from diffsim.scene.search.objective import Objective
from diffsim.scene.search.plan import plan_of
from diffsim.scene.shots.cluster import Processes
from diffsim.scene.shots.truth import observe
from diffsim.scene.words.own_errors import named_errors
from diffsim.typing import Array


class Scene(Description):
    """A question to physics, with everything needed to answer it.

    `Scene.load("tsunami")` reads a scene. `Scene(grid=..., time=..., ...)` builds the same in Python from the parts of
    `diffsim.scene.schema.schema`, or from dicts like the tables of a file. There `equation` may also be a class of an equation, a
    `functools.partial` of one with its options, or a dict whose `type` is the class. The `type` of a misfit, a penalty or an unknown may
    be a class, a partial, or an object with a state of its own.

    Raises:
        SceneError: a key that is unknown, missing or of the wrong kind; the message names it and its place in the file.

    Example:
        import diffsim as ds

        scene = ds.Scene.load("heat_mri")
        assert scene.equation.type == "heat" and "kappa" in scene.unknowns
    """

    @classmethod
    def load(
        cls, scene: str | Path, overrides: Sequence[str] = (), read_below: str | Path | None = None, allow_code: bool = False
    ) -> Scene:
        """Read a scene.

        Args:
            scene: a TOML file, or the name of a scene that comes with diffsim.
            overrides: texts such as "optimise.iterations=5", applied in order.
            read_below: files that the scene names must lie in this folder, after links are resolved; None: anywhere.
            allow_code: import the classes that the scene names as "mypackage.module:Class", also from its folder. That runs
                their code.

        Raises:
            SceneError: the scene is invalid. The message has a line for each problem.
        """
        path = find_scene(scene)
        below = None if read_below is None else path_of("read_below", read_below)
        if below is not None and not below.is_dir():
            raise SceneError(f"read_below: expected a folder, found {path_shown(below)}, which is none; name one that is there")
        return validated(cls, read_scene(path, overrides), path.resolve().parent, below, allow_code)

    def problem(self, precision: str | None = None) -> Problem:
        """The assembled scene."""
        with named_errors(self.classes()):
            return assemble(self, precision or settings().precision)

    def objective(self, precision: str | None = None) -> Objective:
        """The loss of the optimiser's variables: `loss, gradient = objective(theta)`, with synthetic data made anew where there is a truth.

        theta = 0 is the start of all unknowns, of which each has its part of theta, in the order of the scene.
        """
        problem = self.problem(precision)
        with named_errors(self.classes()):
            return Objective(problem, observe(problem.scene, problem.setup))

    def value_and_grad(self, theta: Array | None = None) -> tuple[float, npt.NDArray[np.float64]]:
        """The loss and its gradient with respect to the optimiser's variables; at the start if theta is None.

        Everything is built and compiled anew. For more than one value, keep `objective()`.
        """
        objective = self.objective()
        with named_errors(self.classes()):
            return objective(objective.problem.theta if theta is None else theta)

    def run(
        self,
        out: str | Path | None = None,
        resume: bool = False,
        certificate: bool = False,
        precision: str | None = None,
        watcher: Watcher | None = None,
        workers: Processes = None,
        domains: tuple[int, ...] | None = None,
    ) -> Outcome:
        """Find the unknowns; see `diffsim.scene.run.run_scene`."""
        folder = None if out is None else path_of("out", out)
        with named_errors(self.classes()):
            return run_scene(self, folder, resume, certificate, precision, watcher, workers, domains)

    def plan(self, precision: str | None = None) -> Plan:
        """Plan a gradient of one shot: its predicted cost, and how its states are stored; see `diffsim.plan`."""
        problem = self.problem(precision)
        with named_errors(self.classes()):
            return plan_of(problem)

    def gradcheck(self, on_line: Callable[[Line], None] | None = None) -> Certificate:
        """Measure the certificate; see `diffsim.scene.search.certificate`."""
        with named_errors(self.classes()):
            return certify(self, on_line)
