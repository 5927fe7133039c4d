"""The reference: `python -m diffsim.reference NAME` prints an entry, without a name it writes all of them as pages."""
