"""Finds which text of Noisemark's repository a result was made by."""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SourceState:
    """`commit` is empty outside a checkout; the rest is of a folder's changes against it."""

    commit: str = ""
    dirty: bool = False
    diff_sha256: str = ""


def _git(folder: Path, *words: str) -> bytes | None:
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _untracked(folder: Path) -> bytes:
    names = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", ".") or b""
    files = [name for name in names.split(b"\0") if name]
    return b"".join(name + b"\0" + (folder / name.decode()).read_bytes() for name in files)


def source_state(checkout: Path, part: str) -> SourceState:
    """Returns the state of the repository whose top `checkout` is; changes count where they are below `part`."""
    top = _git(checkout, "rev-parse", "--show-toplevel")
    commit = _git(checkout, "rev-parse", "HEAD")
    if top is None or commit is None or Path(top.decode().strip()) != checkout.resolve():
        return SourceState()
    folder = checkout / part
    changes = (_git(folder, "diff", "--binary", "HEAD", "--", ".") or b"") + _untracked(folder)
    if not changes:
        return SourceState(commit.decode().strip())
    return SourceState(commit.decode().strip(), True, hashlib.sha256(changes).hexdigest())
