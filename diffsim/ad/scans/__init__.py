"""Scans, reductions and histograms with any associative operator."""
