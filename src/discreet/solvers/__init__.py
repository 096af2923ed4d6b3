"""The room of solvers."""
