"""The room of geometry."""
