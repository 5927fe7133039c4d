"""Every error that diffsim raises on purpose. Messages name the expected value, the given value and a remedy."""

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
    """The time step exceeds the stability limit of the explicit scheme.

    Attributes:
        limit: the largest stable time step; None: it is not known.
    """

    def __init__(self, message: str, limit: float | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class ParameterError(DiffsimError, ValueError):
    """A value that is not allowed: negative depth, unknown option, NaN."""


class MissingError(ParameterError, KeyError):
    """A name that a solution, or the state that a function is called with, does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class TraceError(DiffsimError, TypeError):
    """An operation that a traced step cannot express or differentiate."""


class TraceAttributeError(TraceError, AttributeError):
    """An attribute or a method, such as one of NumPy's arrays, that a field of a step does not have."""


class HostStageError(DiffsimError, RuntimeError):
    """A function that a step calls on the host failed."""


class ConvergenceError(DiffsimError, ArithmeticError):
    """A linear system, or an equation that is not linear, was not solved to its tolerance."""


class StaleValueError(DiffsimError, RuntimeError):
    """A value is used after data that it depends on were changed."""


class ReadOnlyError(DiffsimError, ValueError):
    """An array that cannot be assigned to."""


class ScheduleError(DiffsimError, ValueError):
    """A checkpointing schedule is invalid, or an action is illegal at its place."""


class PlanError(DiffsimError, ValueError):
    """A memory budget is too small, or a plan is impossible."""


class ReplayError(DiffsimError, RuntimeError):
    """A repeated step gave another result than the first time, so the gradient would be wrong."""


class StorageError(DiffsimError, OSError):
    """A file has the wrong contents, or the system cannot read or write it."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()  # without the system's number


class SceneError(DiffsimError, ValueError):
    """A scene file, or a data file that it names, is invalid."""


class DataError(DiffsimError, ValueError):
    """A file of records or of a field that cannot be read, or whose contents do not fit."""


class MissingPackageError(DiffsimError, ImportError):
    """A package that this part of diffsim needs is not installed."""


class DivergenceError(DiffsimError, ArithmeticError):
    """A loss, a state or a gradient is no longer finite."""


class BackendError(DiffsimError, RuntimeError):
    """The requested arch, or an option of it, is not available on this machine."""


class WorkerError(DiffsimError, RuntimeError):
    """Processes that run the shots of a scene cannot be started or reached, or they died."""


class DerivativeError(DiffsimError, RuntimeError):
    """A derivative that does not exist, or that diffsim cannot compute and does not guess.

    It is no TypeError, because NumPy would replace the message of that.
    """


class JitError(DiffsimError, RuntimeError):
    """A function of `ds.jit` decides by a value, or lets one out by another way than its result."""


class ArrayCallError(DiffsimError):
    """A function, a method or an operator of arrays does not take its arguments. Each subclass is also of the kind that NumPy raises."""


class ArrayValueError(ArrayCallError, ValueError):
    """Shapes that do not go together, or a value that the function does not take."""


class ArrayTypeError(ArrayCallError, TypeError):
    """An argument of a type that the function does not take."""


class ArrayIndexError(ArrayCallError, IndexError):
    """An index that the array does not have."""


class ArrayAxisError(ArrayCallError, np.exceptions.AxisError):
    """An axis that the array does not have; `axis` and `ndim` as of `numpy.exceptions.AxisError`."""

    axis: int | None
    ndim: int | None

    def __str__(self) -> str:
        return str(self.args[0])  # NumPy would add its own sentence


class ArrayMatrixError(ArrayCallError, np.linalg.LinAlgError):
    """An argument of a function of linear algebra that is not made of matrices, or not of square ones."""


class SingularError(DiffsimError, np.linalg.LinAlgError):
    """A matrix that has no inverse, factor or derivative."""


class GradientError(DiffsimError, AssertionError):
    """A derivative differs from finite differences."""


class TileError(DiffsimError, TypeError):
    """A tile program does what one kernel for all tiles cannot do."""


class KernelError(DiffsimError, TypeError):
    """A user's Taichi kernel cannot be run or differentiated in the way it is written or called."""


class LongStepWarning(UserWarning):
    """An expression of a step is so long that its adjoint takes minutes to derive and to compile."""


class StillWarning(UserWarning):
    """Nothing can move in a run, which is often a wrong sign of a depth or a height."""


class JitWarning(UserWarning):
    """A function of `ds.jit` runs as a plain call, so that it is no faster."""


class MisspeltWarning(UserWarning):
    """An attribute of a user's class has nearly the name of an option, and the code of the class does not read it."""
