"""Parts of several solvers: staggered grids, absorbing edges, moduli, poles, stable time steps, walls between cells."""
