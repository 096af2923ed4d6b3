"""The room of accounting."""
