"""Records from files, and the traces of a run at the times of the records."""

from diffsim.records.read import read_records as read_records
from diffsim.records.records import Layout as Layout
from diffsim.records.records import Records as Records
from diffsim.records.resample import Resampling as Resampling
