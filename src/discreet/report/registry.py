"""A certificate as an entry of the public registry of DP deployments (github.com/opendp/deployments-registry-data)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from discreet.report.certificate import Certificate

__all__ = ["registry_entry"]

_MISSING = "to be filled in"


def registry_entry(certificate: Certificate) -> str:
    """The entry as YAML. What a certificate cannot know, such as the intended use, is marked as to be filled in."""
    record = certificate.record
    unit = certificate.unit
    name = str(record.get("model", certificate.solver))
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
                "bound_on_input_distance": unit.rows_per_unit,
                "output_measure": "max divergence" if certificate.delta == 0 else "fixed smoothed max divergence",
                "bound_on_output_distance": f"({certificate.epsilon:g}, {certificate.delta:g})",
                "unprotected_quantities": list(certificate.unprotected),
            },
            "privacy_loss": {
                "privacy_unit": "user-level" if unit.enforced or unit.rows_per_unit > 1 else "record-level",
                "privacy_unit_description": f"{unit}, {'enforced' if unit.enforced else 'declared'}",
                "privacy_parameters": {"epsilon": certificate.epsilon, "delta": certificate.delta},
                "privacy_parameters_description": "" if certificate.private else "NOT PRIVATE: see the certificate.",
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
            "implementation": {"mechanisms": type(certificate.event).__name__, "justification": _MISSING},
            "resources": {"sources": f"certificate of discreet {certificate.version}", "registry_authors": [_MISSING]},
        },
    }
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
