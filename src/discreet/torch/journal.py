"""How far a training has come, on disk: written before anything of a round is computed, so that it never lags.

**Why.** A training that is killed and resumed must not release more than was charged. Rounds that were run after the
last checkpoint are gone from the model, but somebody may have seen their results. To repeat them with the same noise
would be wrong as soon as anything about them differed, for the difference of two sums under the same noise has none.
So they are never repeated: a resumed training goes on with the *next* round, on fresh noise and fresh batches from the
operating system, and no random key is ever stored. All rounds of all its processes together are then at most the plan,
and the certificate is the plan's.

**What.** A journal is a header line and one byte for each round that was begun. The byte is on disk (``fsync``) before
the round draws its batch; a byte that was half written counts. The journal is locked by the process that trains. A
checkpoint names its journal by an absolute path, so that copies of a checkpoint share one journal, and a checkpoint
whose journal is gone is refused. An older copy of the journal put in its place is beyond what it can notice.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from discreet.errors import InvalidInput, LedgerUnavailable

__all__ = ["Journal"]


class Journal:
    """The rounds begun of one training; made by `create` or `opened`. It is unlocked when it is closed or forgotten."""

    def __init__(self, path: Path, descriptor: int, header: int) -> None:
        """Use `create` or `opened`."""
        self.path, self._header = path, header
        self._descriptor: int | None = descriptor

    @classmethod
    def create(cls, path: Path, training: str, begun: int) -> Journal:
        """A new journal of a training that has begun so many rounds already.

        Raises:
            LedgerUnavailable: the file exists already, or cannot be written. Nothing more was released.
        """
        header = json.dumps({"discreet training": training}).encode() + b"\n"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
            found = cls._locked(path, descriptor, len(header))
            found._write(header + b"." * begun)
            directory = os.open(path.parent, os.O_RDONLY)
            os.fsync(directory)  # the name of a new file is written with its directory
            os.close(directory)
        except OSError as problem:
            raise LedgerUnavailable(
                f"the journal {path} cannot be made ({problem.strerror}). A training has one journal; where one is "
                "left from another training, choose another path. Nothing more was released."
            ) from None
        return found

    @classmethod
    def opened(cls, path: Path, training: str) -> Journal:
        """The journal of a training that is resumed.

        Raises:
            LedgerUnavailable: it is gone or belongs to another training, or another process is still training.
        """
        header = json.dumps({"discreet training": training}).encode() + b"\n"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
            found = cls._locked(path, descriptor, len(header))
            read = os.pread(descriptor, len(header), 0)
        except OSError as problem:
            raise LedgerUnavailable(
                f"the journal {path} of this checkpoint cannot be read ({problem.strerror}): without it nobody knows "
                "what was released after the checkpoint. Nothing was released."
            ) from None
        if read != header:
            raise LedgerUnavailable(f"{path} is not the journal of this training. Nothing was released.")
        return found

    @classmethod
    def _locked(cls, path: Path, descriptor: int, header: int) -> Journal:
        found = cls(path, descriptor, header)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LedgerUnavailable(f"another process is training with the journal {path}.") from None
        return found

    def _write(self, what: bytes) -> None:
        if self._descriptor is None:
            raise OSError(0, "it is closed")
        os.write(self._descriptor, what)
        os.fsync(self._descriptor)

    @property
    def begun(self) -> int:
        """Rounds that were begun."""
        return os.stat(self.path if self._descriptor is None else self._descriptor).st_size - self._header

    def claim(self) -> None:
        """Note that one more round begins; when this returns it is on disk.

        Raises:
            LedgerUnavailable: it cannot be written, so that the round must not begin.
        """
        try:
            self._write(b".")
        except OSError as problem:
            raise LedgerUnavailable(
                f"the journal {self.path} cannot be written ({problem.strerror}); the round was not begun."
            ) from None

    def close(self) -> None:
        """Unlock the journal; it stays where it is, so that an old checkpoint finds which rounds are used."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def require_new(path: Path) -> None:
    """Refuse a path at which something is already.

    Raises:
        InvalidInput: a file is there.
    """
    if path.exists():
        raise InvalidInput(f"{path} exists already, and is not a checkpoint of this training.")
