"""Figures and a self-contained page of the result of a run, and of two runs side by side."""

from diffsim.report.compare import compare as compare
from diffsim.report.compare import write_comparison as write_comparison
from diffsim.report.page import REPORT as REPORT
from diffsim.report.page import write_report as write_report
