"""The room of noise."""
