"""One simulation over many processes: boxes of the grid, their ghost cells, and the exchange of these by MPI."""

from diffsim.domains.domain import Domain as Domain
from diffsim.domains.domain import Domains as Domains
from diffsim.domains.domain import Whole as Whole
from diffsim.domains.domain import domain_of as domain_of
from diffsim.domains.ranks import Alone as Alone
from diffsim.domains.ranks import Ranks as Ranks
