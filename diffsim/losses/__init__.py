"""Misfits between predicted and observed values, and regularisers of fields."""

from diffsim.losses.misfit import L2Misfit as L2Misfit
from diffsim.losses.misfit import Misfit as Misfit
from diffsim.losses.regularise import Regulariser as Regulariser
from diffsim.losses.regularise import SmoothedTotalVariation as SmoothedTotalVariation
from diffsim.losses.regularise import Tikhonov as Tikhonov
