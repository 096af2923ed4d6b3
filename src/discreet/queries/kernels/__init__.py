"""Compiled loops (numba) of the queries. Importing one loads the compiler, so queries import them when they run."""
