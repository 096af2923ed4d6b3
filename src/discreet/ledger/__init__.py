"""The room of ledger."""
