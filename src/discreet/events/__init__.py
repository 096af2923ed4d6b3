"""Frozen facts about a release: what was done, never what was seen.

An event says which noise was used relative to ``C``, the bound on *one row's* contribution
(``noise_multiplier = noise scale / C``). The neighbouring relation is not part of an event: it turns C into a
sensitivity (C under add-remove, 2C under replace-one) when the event is accounted; a `Gaussian` may know that two rows'
contributions are never 2C from each other, and says so (``replace_one_factor``). Leaves that state a guarantee
directly (`PureDP`, `ApproxDP`, `ZCDP`, `Selection`, …) state it for one row under the relation in which they are
accounted, for datasets (or batches) of every size.

Events are values: equal when equal, hashable, and written to and read from plain JSON (`Event.to_json`, `from_json`).
They hold no mathematics: what an event guarantees is computed in `discreet.accounting`.

The package is closed: every event type is defined here, so that a process can read every ledger and certificate
without importing anything else. Ledgers and certificates outlive the release that wrote them, hence these rules of
evolution:

- A released event type is never removed, and its stored name (``kind``) never changes.
- A released field is never removed, its stored key never changes, and neither its meaning nor that of a value changes:
  what was accounted once is accounted with the same or a larger ε, unless a proof has become tighter.
- A new field has a default that means what every event meant that was written without it.
- A field may be renamed in Python. Its stored key stays (`Event._stored_names`): ``Gaussian.replace_one_factor`` is
  written as ``"apart"``, its first name, so that the same event has the same JSON in every release; it is read under
  either name.
- What can no longer be accounted is refused with `NotCertifiable` when it is accounted, not when it is read.
"""

from __future__ import annotations

from discreet.events.base import Event, from_dict, from_json
from discreet.events.composition import Compose, Parallel, PrivateSelection, Repeat, compose
from discreet.events.leaves import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NonPrivate,
    ObjectivePerturbation,
    RandomizedResponse,
    Selection,
)
from discreet.events.runs import BandedMatrix, LastIterate
from discreet.events.sampling import Allocation, FixedSize, Poisson, WithReplacement
from discreet.events.stated import ZCDP, ApproxDP, Promise, PureDP, RenyiDP

__all__ = [
    "ZCDP",
    "Allocation",
    "ApproxDP",
    "BandedMatrix",
    "Compose",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "FixedSize",
    "Gaussian",
    "Laplace",
    "LastIterate",
    "NonPrivate",
    "ObjectivePerturbation",
    "Parallel",
    "Poisson",
    "PrivateSelection",
    "Promise",
    "PureDP",
    "RandomizedResponse",
    "RenyiDP",
    "Repeat",
    "Selection",
    "WithReplacement",
    "compose",
    "from_dict",
    "from_json",
]
