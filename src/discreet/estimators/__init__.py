"""The room of estimators."""
