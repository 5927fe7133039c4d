"""Records and fields from files, and the traces of a run at the times of the records."""

from diffsim.records.conventions.records import Layout as Layout
from diffsim.records.conventions.records import Records as Records
from diffsim.records.fields import Gridded as Gridded
from diffsim.records.fields import read_field as read_field
from diffsim.records.read import read_records as read_records
from diffsim.records.resample import Resampling as Resampling
from diffsim.records.zero_phase import ZeroPhaseFilter as ZeroPhaseFilter
