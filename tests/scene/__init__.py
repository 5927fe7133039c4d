"""Scenes. Processes of their own share out steps as those of users do."""

from diffsim.stepping.source import slabs
from tests import WORTH_A_THREAD

slabs.LEAST_CYCLES = WORTH_A_THREAD
