"""The room of measurements."""
