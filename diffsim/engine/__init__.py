"""The interface to the engines that run kernels: Taichi 1.7.4, or Quadrants. No module outside of this folder imports either."""

from diffsim.engine.arrays import ALIGNMENT as ALIGNMENT
from diffsim.engine.arrays import DeviceArray as DeviceArray
from diffsim.engine.arrays import aligned as aligned
from diffsim.engine.backend import Backend as Backend
from diffsim.engine.backend import backend as backend
from diffsim.engine.backend import clock as clock
from diffsim.engine.backend import lanes as lanes
from diffsim.engine.engines import language as language
from diffsim.engine.engines import present as present
from diffsim.engine.expressions import expression as expression
from diffsim.engine.expressions import lanes_of as lanes_of
from diffsim.engine.expressions import tile_of as tile_of
from diffsim.engine.kernels import compile_kernel as compile_kernel
from diffsim.engine.kernels import hand_written as hand_written
from diffsim.engine.kernels import shared_kernel as shared_kernel
from diffsim.engine.launch import BoundKernel as BoundKernel
from diffsim.engine.launch import launch_reverse as launch_reverse
from diffsim.engine.session import PRECISIONS as PRECISIONS
from diffsim.engine.session import Settings as Settings
from diffsim.engine.session import check_generation as check_generation
from diffsim.engine.session import init as init
from diffsim.engine.session import lock as lock
from diffsim.engine.session import refuse_forked as refuse_forked
from diffsim.engine.session import settings as settings
