"""A certificate as an entry of the public registry of DP deployments (github.com/opendp/deployments-registry-data)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import yaml

from discreet.floats import rounded_up
from discreet.report.certificate_facts import (
    Facts,
    bound_facts,
    curve_facts,
    guarantee_facts,
    making_facts,
    mechanism_facts,
    query_facts,
)
from discreet.text import printable

if TYPE_CHECKING:
    from discreet.report.certificate import Certificate

__all__ = ["registry_entry"]

_MISSING = "to be filled in"


def registry_entry(certificate: Certificate) -> str:
    """The entry as YAML. What a certificate cannot know, such as the intended use, is marked as to be filled in."""
    record = certificate.record
    unit = certificate.unit
    name = str(record.get("model", certificate.solver))
    at_most = rounded_up(certificate.epsilon, 6), rounded_up(certificate.delta, 6)
    metric = {"add-remove": "symmetric distance", "replace-one": "change-one distance"}[unit.relation]
    entry: dict[str, Any] = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{name}-{record.get('dataset', 'data')}".lower()).strip("-"),
        "status": "Draft",
        "tier": 1,
        "deployment": {
            "product": {
                "name": name,
                "data_curators": [_MISSING],
                "intended_use": _MISSING,
                "data_product_type": "Machine learning model",
                "data_product_region": _MISSING,
                "description": f"Fitted by {certificate.solver} with discreet {certificate.version}.",
                "publication_date": str(record.get("issued", _MISSING))[:10],
            },
            "dp_flavor": {
                "name": "Pure DP" if certificate.delta == 0 else "Approximate DP",
                "input_metric": metric,
                "bound_on_input_distance": str(unit.rows_per_unit),
                "output_measure": "max divergence" if certificate.delta == 0 else "fixed smoothed max divergence",
                "bound_on_output_distance": f"({', '.join(at_most)})",
                "data_domain": _listed([f"dataset {record.get('dataset', _MISSING)}", *_rows(record)]),
                "unprotected_quantities": _listed(certificate.unprotected) or "None known.",
            },
            "privacy_loss": {
                "privacy_unit": "user-level" if unit.enforced or unit.rows_per_unit > 1 else "record-level",
                "privacy_unit_description": f"{unit}, {'enforced' if unit.enforced else 'declared'}",
                "privacy_parameters": {"epsilon": certificate.epsilon, "delta": certificate.delta},
                "privacy_parameters_description": _parameters(certificate),
            },
            "model": {
                "model_name": "Central",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "The model is computed from the released values alone.",
                "composition": "Certified bounds of the composition of all releases (privacy loss distributions).",
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": _in_lines(bound_facts(certificate)) or _MISSING,
                "mechanisms": _in_lines(mechanism_facts(certificate) + query_facts(certificate)),
                "justification": _MISSING,
            },
            "resources": {"sources": _in_lines(making_facts(certificate)), "registry_authors": [_MISSING]},
        },
    }
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)


def _parameters(certificate: Certificate) -> str:
    if not certificate.private:
        return "NOT PRIVATE: see the certificate."
    return _in_lines(guarantee_facts(certificate) + curve_facts(certificate))


def _rows(record: dict[str, Any]) -> list[str]:
    target, rows = record.get("target"), record.get("rows")
    return ([f"target {target}"] if target else []) + ([f"{rows} rows (public)"] if rows else [])


def _in_lines(facts: Facts) -> str:
    """Facts as a list in Markdown, as the registry shows texts."""
    return _listed(f"{name}: {value}" for name, value in facts)


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {printable(item)}" for item in items)
