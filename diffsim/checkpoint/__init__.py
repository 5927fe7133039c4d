"""Checkpointing: schedules that reverse many steps in bounded memory, their planner, their proof and their driver."""

from diffsim.checkpoint.actions import Action as Action
from diffsim.checkpoint.actions import Advance as Advance
from diffsim.checkpoint.actions import EndForward as EndForward
from diffsim.checkpoint.actions import Fetch as Fetch
from diffsim.checkpoint.actions import Free as Free
from diffsim.checkpoint.actions import Load as Load
from diffsim.checkpoint.actions import Record as Record
from diffsim.checkpoint.actions import Reverse as Reverse
from diffsim.checkpoint.actions import Save as Save
from diffsim.checkpoint.actions import Undo as Undo
from diffsim.checkpoint.binomial import Binomial as Binomial
from diffsim.checkpoint.driver import Stepper as Stepper
from diffsim.checkpoint.driver import Sweep as Sweep
from diffsim.checkpoint.machine import Summary as Summary
from diffsim.checkpoint.machine import simulate as simulate
from diffsim.checkpoint.memory import available_memory as available_memory
from diffsim.checkpoint.memory import parse_memory as parse_memory
from diffsim.checkpoint.plan import choose as choose
from diffsim.checkpoint.plan import peak_states as peak_states
from diffsim.checkpoint.plan import resolve as resolve
from diffsim.checkpoint.schedule import OnlineSchedule as OnlineSchedule
from diffsim.checkpoint.schedule import Schedule as Schedule
from diffsim.checkpoint.schedule import Shared as Shared
from diffsim.checkpoint.schedule import Tier as Tier
from diffsim.checkpoint.schedule import tiers_of as tiers_of
from diffsim.checkpoint.store_all import StoreAll as StoreAll
