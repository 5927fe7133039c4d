"""How every function of NumPy's is called here."""
