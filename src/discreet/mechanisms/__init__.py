"""The room of mechanisms."""
