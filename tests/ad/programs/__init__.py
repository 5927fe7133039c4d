"""Differentiated programs, a module a group: code in plain numerical Python has a gradient, and this one.

A program is a function of `np`, the namespace it is written against, of `ds` where it uses an operator of the library, and of its
arguments. Its value is that of the same program on plain NumPy (`reference.py` has the operators as loops); its derivative is a closed
form, a complex step, or a number stored from a computation with many digits. Nothing here imports diffsim but `test_programs.py`.
"""
