"""What several solvers are made of: staggered grids, absorbing edges, moduli, poles, stable time steps, walls between cells."""
