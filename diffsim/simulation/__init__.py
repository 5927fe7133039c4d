"""An equation with its sources and receivers: run it, and take derivatives through all of its time steps."""

from diffsim.simulation.batch import Batch as Batch
from diffsim.simulation.host_stage import host_stage as host_stage
from diffsim.simulation.planning import plan as plan
from diffsim.simulation.planning import plan_for as plan_for
from diffsim.simulation.prepared.report import SweepReport as SweepReport
from diffsim.simulation.prepared.solution import Pullback as Pullback
from diffsim.simulation.prepared.solution import Solution as Solution
from diffsim.simulation.simulation import Simulation as Simulation
from diffsim.simulation.steady import steady as steady
