"""Ed25519 signatures of certificates: who issued one, and that nothing in it was changed."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet.errors import InvalidInput
from discreet.text import checked_path

__all__ = ["new_key", "public_key_of", "sign", "signed_by"]

_NAME = "signature"


def new_key(path: Path) -> str:
    """Write a new private key, readable by its owner alone; its public key is returned.

    Raises:
        InvalidInput: the file is there already, or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    place = Path(checked_path(path))
    try:
        place.touch(mode=0o600, exist_ok=False)
        place.write_bytes(text)
    except FileExistsError:
        raise InvalidInput(f"{place} is there already: a key is never written over.") from None
    except OSError as problem:
        raise InvalidInput(f"{place} cannot be written: {problem.strerror}.") from None
    return _public(key)


def public_key_of(path: Path) -> str:
    """The public key of a private key's file, in hexadecimal."""
    return _public(_read_key(path))


def sign(certificate: dict[str, Any], key: Path) -> dict[str, Any]:
    """The certificate with a signature of everything else in it."""
    private = _read_key(key)
    bare = {name: value for name, value in certificate.items() if name != _NAME}
    signature = base64.b64encode(private.sign(_canonical(bare))).decode("ascii")
    return bare | {_NAME: {"algorithm": "Ed25519", "public_key": _public(private), "value": signature}}


def signed_by(certificate: dict[str, Any]) -> str | None:
    """The public key that signed this certificate as it is; None where there is no signature.

    Raises:
        InvalidInput: the signature is not one of this text.
    """
    kept = certificate.get(_NAME)
    if kept is None:
        return None
    bare = {name: value for name, value in certificate.items() if name != _NAME}
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(kept["public_key"]))
        key.verify(base64.b64decode(kept["value"], validate=True), _canonical(bare))
        return str(kept["public_key"])
    except (InvalidSignature, ValueError, KeyError, TypeError):
        raise InvalidInput("the signature is not one of this certificate: something in it was changed.") from None


def _canonical(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _read_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(Path(checked_path(path)).read_bytes(), password=None)
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read: {problem.strerror}.") from None
    except (ValueError, TypeError):
        raise InvalidInput(f"{path} is no private key; discreet report --new-key makes one.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(f"{path} is a key of another kind than Ed25519.")
    return key


def _public(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw.hex()
