"""Figures and a self-contained page of what a run found."""

from diffsim.report.page import write_report as write_report
