"""From a loss and its gradient to the unknowns: parametrisations, bounds, optimisers, and runs that can be resumed."""

from diffsim.optimize.adam import Adam as Adam
from diffsim.optimize.adam import Batches as Batches
from diffsim.optimize.diffusion import DiffusionPrior as DiffusionPrior
from diffsim.optimize.evaluation import NonFiniteError as NonFiniteError
from diffsim.optimize.gauss_newton import GaussNewton as GaussNewton
from diffsim.optimize.journal import Journal as Journal
from diffsim.optimize.journal import JournalError as JournalError
from diffsim.optimize.minimise import Iteration as Iteration
from diffsim.optimize.minimise import Result as Result
from diffsim.optimize.minimise import minimise as minimise
from diffsim.optimize.outline import Outline as Outline
from diffsim.optimize.parametrise import NamedUnknown as NamedUnknown
from diffsim.optimize.parametrise import Parametrisation as Parametrisation
from diffsim.optimize.parametrise import Unknown as Unknown
from diffsim.optimize.posterior import Posterior as Posterior
from diffsim.optimize.posterior import posterior as posterior
from diffsim.optimize.priors import CorrelatedPrior as CorrelatedPrior
from diffsim.optimize.priors import PrecisionPrior as PrecisionPrior
from diffsim.optimize.priors import Prior as Prior
from diffsim.optimize.priors import StackedPriors as StackedPriors
from diffsim.optimize.regions import Regions as Regions
from diffsim.optimize.stacked import Stacked as Stacked
