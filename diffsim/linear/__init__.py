"""Linear systems on a grid whose matrix is a stencil with a weight for each offset, and a boundary rule for the outside."""

from diffsim.linear.coupled import CoupledSystem as CoupledSystem
from diffsim.linear.coupled import Entry as Entry
from diffsim.linear.coupled import solutions as solutions
from diffsim.linear.coupled import system_of as system_of
from diffsim.linear.periodic import norms as norms
from diffsim.linear.preconditioner import Given as Given
from diffsim.linear.preconditioner import Preconditioner as Preconditioner
from diffsim.linear.preconditioner import require_preconditioner as require_preconditioner
from diffsim.linear.system import METHODS as METHODS
from diffsim.linear.system import Method as Method
from diffsim.linear.system import System as System
from diffsim.linear.transforms import Inside as Inside
