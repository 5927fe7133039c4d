"""Every error that diffsim raises on purpose: what was expected, what was found, what to do about it."""

from __future__ import annotations

import numpy as np


class DiffsimError(Exception):
    """Base of all errors that diffsim raises on purpose.

    Example:
        import numpy as np

        import diffsim as ds

        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1))
        try:
            rod.run({"kappa": np.full(40, 1.0), "T": np.zeros(40)}, steps=10)  # far beyond the stable time step
        except ds.DiffsimError as error:
            message = str(error)
        assert "lower dt" in message
    """


class ShapeError(DiffsimError, ValueError):
    """An array, an axis or a location on the cell does not fit."""


class StabilityError(DiffsimError, ValueError):
    """The time step exceeds what the explicit scheme can bear."""


class ParameterError(DiffsimError, ValueError):
    """A value outside what it may be: negative depth, unknown option, NaN."""


class TraceError(DiffsimError, TypeError):
    """An operation that a traced step cannot express or differentiate."""


class HostStageError(DiffsimError, RuntimeError):
    """A function that a step calls on the host failed."""


class ConvergenceError(DiffsimError, ArithmeticError):
    """A linear system, or an equation that is not linear, was not solved to its tolerance."""


class StaleValueError(DiffsimError, RuntimeError):
    """A value is used after what it depends on was changed."""


class ReadOnlyError(DiffsimError, ValueError):
    """An array that cannot be assigned to."""


class ScheduleError(DiffsimError, ValueError):
    """A checkpointing schedule that cannot be, or an action that is not legal now."""


class PlanError(DiffsimError, ValueError):
    """A memory budget that cannot work."""


class ReplayError(DiffsimError, RuntimeError):
    """A step that was run again did not do what it did the first time, so a gradient would be wrong."""


class StorageError(DiffsimError, OSError):
    """A file or a disk does not hold what it should, or cannot."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()  # without the system's number


class SceneError(DiffsimError, ValueError):
    """A scene file, or a data file that it names, is not as it should be."""


class DivergenceError(DiffsimError, ArithmeticError):
    """A loss, a state or a gradient is no longer finite."""


class BackendError(DiffsimError, RuntimeError):
    """The requested arch, or an option of it, is not available on this machine."""


class DerivativeError(DiffsimError, RuntimeError):
    """A derivative that does not exist, or that diffsim cannot give and will not guess.

    No TypeError: NumPy would hide it behind a message of its own.
    """


class SingularError(DiffsimError, np.linalg.LinAlgError):
    """A matrix that has no inverse, factor or derivative."""


class GradientError(DiffsimError, AssertionError):
    """A derivative differs from what differences give."""


class KernelError(DiffsimError, TypeError):
    """A user's own Taichi kernel that cannot be run or differentiated as it is written or called."""
