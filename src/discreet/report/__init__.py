"""Certificates."""

from discreet.report.certificate import Certificate

__all__ = ["Certificate"]
