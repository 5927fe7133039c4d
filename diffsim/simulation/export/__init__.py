"""Solutions for other programs: datasets of xarray, files of VTK."""
