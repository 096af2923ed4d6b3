"""The room of losses."""
