"""Light in structures, around `diffsim.solvers.Maxwell`: sources, monitors, modes of waveguides, permittivities of shapes, and designs."""

from diffsim.photonics.beams import gaussian_beam as gaussian_beam
from diffsim.photonics.beams import line_source as line_source
from diffsim.photonics.beams import mode_source as mode_source
from diffsim.photonics.design import Density as Density
from diffsim.photonics.design import feature_size as feature_size
from diffsim.photonics.design import projected as projected
from diffsim.photonics.modes import Mode as Mode
from diffsim.photonics.modes import slab_mode as slab_mode
from diffsim.photonics.monitors import Monitors as Monitors
from diffsim.photonics.monitors import Plane as Plane
from diffsim.photonics.permittivity import permittivity as permittivity
from diffsim.photonics.plane_wave import plane_wave as plane_wave
from diffsim.photonics.sources import Source as Source
from diffsim.photonics.sources import gaussian_pulse as gaussian_pulse
