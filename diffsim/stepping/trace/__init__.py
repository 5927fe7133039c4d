"""A step as expressions: an equation's functions are called once with symbolic fields."""
