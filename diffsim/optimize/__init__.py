"""The unknowns of an inverse problem as a flat vector."""

from diffsim.optimize.parametrise import Parametrisation as Parametrisation
from diffsim.optimize.parametrise import Unknown as Unknown
from diffsim.optimize.regions import Regions as Regions
from diffsim.optimize.stacked import Stacked as Stacked
