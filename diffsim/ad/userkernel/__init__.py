"""A user's own Taichi kernel as a differentiable function of arrays: checked, launched, differentiated."""

from diffsim.ad.userkernel.check import KernelCheck, check_kernel
from diffsim.ad.userkernel.kernel import UserKernel, kernel

__all__ = ["KernelCheck", "UserKernel", "check_kernel", "kernel"]
