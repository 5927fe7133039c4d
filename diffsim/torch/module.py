"""A simulation as a function of tensors, and as a layer of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diffsim.base.arguments import mapping
from diffsim.base.packages import needed_by
from diffsim.checkpoint import Checkpoint
from diffsim.errors import ParameterError
from diffsim.simulation import Simulation, Solution
from diffsim.simulation.exported import ExportedRun, export
from diffsim.simulation.prepared.reading import whole_array
from diffsim.torch.operation import applied, wants_gradient

with needed_by("diffsim.torch"):
    import torch


@torch.compiler.disable
def run(simulation: Simulation, inputs: Mapping[str, Any], steps: int, checkpoint: Checkpoint = "auto") -> Solution:
    """Solve forward, as one operation of torch's graph; `Simulation.run` for tensors.

    Derivatives of any order come from the adjoint of the solver, in reverse mode, and from its tangent, in forward mode. It works under
    `torch.func`: `grad`, `jvp`, `jacrev`, `jacfwd`, `hessian` and `vmap`, which computes all runs in one call as a `diffsim.Batch` does,
    or one after another if the equation's runs cannot be computed together. The simulation has storage for one run: where several runs of
    one simulation are in a graph, or its backward pass is asked for twice, forward runs are repeated. `torch.compile` compiles the code
    around the run, and calls the run as it is.

    Args:
        simulation: the simulation to run. The inputs that require gradients must be among its `wrt`.
        inputs: tensors by name, of the type in which the simulation computes; or arrays and numbers, which are constant.
        steps: time steps.
        checkpoint: the states that the backward pass keeps; see `Simulation.vjp`.

    Returns:
        The solution, with tensors in `final` and `traces`.

    Raises:
        ParameterError: a tensor has another type, is not in the memory of the host, or requires a gradient that the simulation was not
            built for.

    Example:
        import numpy as np
        import torch

        import diffsim as ds
        import diffsim.torch

        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), receivers={"T": [[0.5]]}, precision="f32")
        kappa = torch.full((40,), 5e-3, requires_grad=True)
        hot = np.linspace(0.0, 1.0, 40) ** 2  # a constant
        found = ds.torch.run(rod, {"kappa": kappa, "T": hot}, steps=60)
        found.traces["T"].square().mean().backward()
        assert kappa.grad.shape == (40,) and kappa.grad.abs().max() > 0
    """
    mapping("inputs", inputs, "{'c': c}")
    model, fields = export(simulation, inputs, steps, checkpoint)
    tensors = [_tensor(model, name, value) for name, value in fields.items()]
    return model.result(applied(model, tensors), torch.stack)


class Module(torch.nn.Module):
    """A simulation as a layer of a network.

    Call it with tensors by name, `layer(c=c)`. It returns a `diffsim.Solution` of tensors, as `run` does.

    Args:
        simulation: the simulation to run; see `run`.
        steps: time steps.
        inputs: inputs that every call has, by name. A `torch.nn.Parameter` becomes a parameter of the module, others become buffers, which
            are constant.
        checkpoint: the states that the backward pass keeps; see `Simulation.vjp`.

    Raises:
        ParameterError: see `run`; also if `double()`, `half()` or `to` change the type of the inputs, which is the simulation's.

    Example:
        import numpy as np
        import torch

        import diffsim as ds
        import diffsim.torch

        # Search the diffusivity of a rod by Adam.
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), receivers={"T": [[0.5], [1.5]]}, precision="f32")
        hot = np.linspace(0.0, 1.0, 40) ** 2
        observed = torch.from_numpy(rod.run({"kappa": np.full(40, 6e-3), "T": hot}, steps=60).traces["T"])
        layer = ds.torch.Module(rod, steps=60, inputs={"T": hot})
        scale = torch.nn.Parameter(torch.zeros(()))
        optimiser = torch.optim.Adam([scale], lr=0.05)
        for _ in range(20):
            optimiser.zero_grad()
            predicted = layer(kappa=5e-3 * torch.exp(scale) * torch.ones(40)).traces["T"]
            loss = (predicted - observed).square().mean()
            loss.backward()
            optimiser.step()
        assert abs(5e-3 * scale.exp().item() - 6e-3) < 5e-4
    """

    def __init__(
        self, simulation: Simulation, steps: int, inputs: Mapping[str, Any] | None = None, checkpoint: Checkpoint = "auto"
    ) -> None:
        super().__init__()
        parts = {} if inputs is None else mapping("inputs", inputs, "{'f': wavelet}")
        model, fields = export(simulation, parts, steps, checkpoint)
        self.simulation, self.steps, self.checkpoint, self._given = simulation, steps, checkpoint, tuple(parts)
        for name, value in parts.items():
            components = [_tensor(model, part, fields[part]) for part in model.compiled.groups.names([name])]
            if name in fields:
                tensor = components[0] if components[0] is value else components[0].clone()  # a user may edit the array
            else:
                tensor = value if isinstance(value, torch.Tensor) else torch.stack(components)
            if isinstance(tensor, torch.nn.Parameter):
                self.register_parameter(f"input_{name}", tensor)
            else:
                self.register_buffer(f"input_{name}", tensor)

    def forward(self, **inputs: Any) -> Solution:
        """Solve forward; see `run`."""
        parts = {name: getattr(self, f"input_{name}") for name in self._given}
        return run(self.simulation, {**parts, **inputs}, self.steps, self.checkpoint)

    def _apply(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Convert or move the tensors: for `double` and `to`."""
        wanted = torch.empty(0, dtype=getattr(torch, self.simulation.dtype.name))
        dtype = fn(wanted).dtype
        if self._given and dtype != wanted.dtype:
            names = [str(kind).removeprefix("torch.") for kind in (dtype, wanted.dtype)]
            raise ParameterError(
                f"Module converts its inputs to {names[0]}, expected {names[1]}, in which its simulation computes; convert the other "
                "modules alone, or build the simulation with another precision="
            )
        return super()._apply(fn, *args, **kwargs)

    def extra_repr(self) -> str:
        """The text that torch prints of it."""
        return f"{type(self.simulation.equation).__name__}, steps={self.steps}, checkpoint={self.checkpoint!r}"


def _tensor(model: ExportedRun, name: str, value: Any) -> Any:
    """An input as a tensor of the simulation's type in the memory of the host."""
    if not isinstance(value, torch.Tensor):
        array = whole_array(model.compiled, name, value, model.compiled.dtype)
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    if value.device.type != "cpu" or value.layout != torch.strided:
        where = f"on the device {value.device}" if value.device.type != "cpu" else f"of the layout {value.layout}"
        remedy = "move it by .cpu(), and the results back by .to(device)" if value.device.type != "cpu" else "convert it by .to_dense()"
        raise ParameterError(f"input {name} is a tensor {where}, expected a dense one in the memory of the host; {remedy}")
    kind = str(value.dtype).removeprefix("torch.")
    model.check_type(name, kind, f".to(torch.{model.compiled.dtype.name})")
    if wants_gradient(value):
        model.check_wanted(name, ".detach()")
    return value
