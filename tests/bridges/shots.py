"""Shots that workers of torch's DataLoader compute: in a module of its own, since a spawned worker imports it."""

from __future__ import annotations

from typing import Any

import torch

import diffsim.torch
from tests.bridges.tube import STEPS, inputs_of, tube


class Shots(torch.utils.data.Dataset):
    """A module that every worker gets a copy of. Each item is a record and the gradient of its energy."""

    def __init__(self) -> None:
        simulation = tube()
        self.inputs = [inputs_of(simulation, seed) for seed in range(3)]
        self.layer = diffsim.torch.Module(simulation, STEPS)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> Any:
        tensors = {name: torch.from_numpy(value).clone() for name, value in self.inputs[number].items()}
        tensors["c"].requires_grad_()
        trace = self.layer(**tensors).traces["p"]
        trace.square().sum().backward()
        return trace.detach(), tensors["c"].grad
