"""Signed statements, in the envelope of DSSE (Dead Simple Signing Envelope, version 1), with Ed25519 keys.

The signature covers the type and the bytes of the statement. Keys are PEM files, as `openssl genpkey -algorithm
ed25519` writes them; a key is named by the SHA-256 of its public half.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from prograd_proto.regular_files import open_regular
from runtime.errors import DataError, UsageError
from runtime.extras import extra

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_KEY_BYTES: Final = 1 << 16


class Signature(NamedTuple):
    """A signature, and the name of the key that made it."""

    key: str
    bytes: bytes


class Signer:
    """A private key."""

    def __init__(self, path: Path) -> None:
        """Read the key from a PEM file; raise UsageError if it is no private Ed25519 key without a password."""
        ed25519, serialization = _cryptography("--sign")
        found = _parsed(path, partial(serialization.load_pem_private_key, password=None))
        if not isinstance(found, ed25519.Ed25519PrivateKey):
            raise UsageError(f"{path}: this is no private Ed25519 key, as openssl genpkey -algorithm ed25519 writes it")
        self._key = found

    def signed(self, statement: bytes) -> bytes:
        """Return the envelope of a statement."""
        signature = {
            "keyid": _name(self._key.public_key()),
            "sig": b64encode(self._key.sign(_encoded(statement))).decode(),
        }
        values = {
            "payload": b64encode(statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [signature],
        }
        return json.dumps(values, indent=2).encode() + b"\n"


def opened(path: Path, values: Mapping[str, Any]) -> tuple[bytes, list[Signature]]:
    """Return the statement in an envelope, and its signatures; raise DataError if it is damaged."""
    try:
        if values["payloadType"] != PAYLOAD_TYPE:
            raise ValueError
        signatures = [
            Signature(str(each.get("keyid", "")), b64decode(each["sig"], validate=True))
            for each in cast("list[dict[str, Any]]", values["signatures"])
        ]
        return b64decode(values["payload"], validate=True), signatures
    except (AttributeError, KeyError, TypeError, ValueError, binascii.Error):
        raise DataError(f"{path}: the envelope of the statement is damaged") from None


def require_signed(path: Path, statement: bytes, signatures: list[Signature], key: Path) -> None:
    """Raise DataError unless a statement has a signature by the key in a PEM file."""
    ed25519, serialization = _cryptography("--key")
    public = _parsed(key, serialization.load_pem_public_key)
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise UsageError(f"{key}: this is no public Ed25519 key, as openssl pkey -pubout writes it")
    name = _name(public)
    if not signatures:
        raise DataError(f"{path}: the statement has no signature, and --key {key} asks for one")
    for signature in signatures:
        try:
            public.verify(signature.bytes, _encoded(statement))
            return
        except Exception as error:
            if type(error).__name__ != "InvalidSignature":
                raise
    if any(signature.key == name for signature in signatures):
        raise DataError(f"{path}: the statement was changed after it was signed by the key {name[:16]}...")
    raise DataError(f"{path}: the statement is signed by the key {signatures[0].key[:16]}..., not by {name[:16]}...")


def _encoded(statement: bytes) -> bytes:
    """Return what a signature covers: DSSE's "pre-authentication encoding"."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(statement), statement)


def _name(public: Any) -> str:
    return sha256(public.public_bytes_raw()).hexdigest()


def _cryptography(option: str) -> tuple[Any, Any]:
    ed25519 = extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", option)
    return ed25519, extra("cryptography.hazmat.primitives.serialization", "sign", option)


def _parsed(path: Path, parse: Any) -> Any:
    """Return what a parser makes of a file; None if it makes nothing of it."""
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_KEY_BYTES)
    except OSError as error:
        raise DataError(f"{path}: the key cannot be read: {error.strerror or error}") from None
    try:
        return parse(raw)
    except (ValueError, TypeError):  # no PEM; a key with a password
        return None
