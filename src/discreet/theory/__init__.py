"""The room of theory."""
