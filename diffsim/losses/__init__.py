"""Misfits between predicted and observed values, and regularisers of fields."""

from diffsim.losses.correlation import CorrelationMisfit as CorrelationMisfit
from diffsim.losses.data_misfit import DataMisfit as DataMisfit
from diffsim.losses.data_misfit import TraceMisfit as TraceMisfit
from diffsim.losses.envelope import EnvelopeMisfit as EnvelopeMisfit
from diffsim.losses.envelope import LogAmplitudeMisfit as LogAmplitudeMisfit
from diffsim.losses.huber import HuberMisfit as HuberMisfit
from diffsim.losses.misfit import L2Misfit as L2Misfit
from diffsim.losses.misfit import Misfit as Misfit
from diffsim.losses.regularise import Penalty as Penalty
from diffsim.losses.regularise import Regulariser as Regulariser
from diffsim.losses.regularise import SmoothedTotalVariation as SmoothedTotalVariation
from diffsim.losses.regularise import Tikhonov as Tikhonov
from diffsim.losses.wasserstein import WassersteinMisfit as WassersteinMisfit
