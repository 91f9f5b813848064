"""Reads a resolved benchmark definition in Noisemark's canonical JSON form. Needs no torch."""

import hashlib
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from endings import BadInput


@dataclass(frozen=True)
class Definition:
    """One locked definition: its canonical text, and the same parsed."""

    text: str
    sections: dict[str, Any]
    overrides: tuple[str, ...] = ()  # "key=value" that made it another than the locked one
    custom: bool = False  # it was changed, or is not locked at all

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def name(self) -> str:
        benchmark = self.sections["benchmark"]
        return f"{benchmark['id']}@{benchmark['scale']}"

    def __getitem__(self, section: str) -> dict[str, Any]:
        return self.sections[section]


def _number_text(value: float) -> str:
    """The shorter of the fixed and the scientific form, as C++'s std::to_chars chooses."""
    exact = Decimal(repr(value)).normalize()
    fixed = format(exact, "f")
    mantissa, _, exponent = format(exact, "e").partition("e")
    scientific = f"{mantissa}e{exponent[0]}{exponent[1:]:0>2}"
    text = fixed if len(fixed) <= len(scientific) else scientific
    return text if set(".e") & set(text) else text + ".0"


def canonical_text(value: Any) -> str:
    """Canonical JSON of parsed sections: no white space, shortest exact numbers, order kept."""
    if isinstance(value, dict):
        members = (f"{json.dumps(key)}:{canonical_text(entry)}" for key, entry in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    return _number_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _listed(listing: dict[str, Any], name: str | None, path: Path) -> tuple[Definition, str]:
    """`ID[@SCALE]` in what `noisemark list --json` printed, custom where that is not locked, and its
    SHA-256."""
    if not name:
        raise BadInput(f"{path}: a list of benchmarks: none chosen (--id ID or ID@gpu)")
    wanted, _, scale = name.partition("@")
    for benchmark in listing["benchmarks"]:
        if benchmark["id"] == wanted and (scale or "cpu") in benchmark["scales"]:
            entry = benchmark["scales"][scale or "cpu"]
            text = canonical_text(entry["definition"])
            custom = not entry.get("locked", True)
            return Definition(text, json.loads(text), custom=custom), entry["definition_sha256"]
    known = ", ".join(benchmark["id"] for benchmark in listing["benchmarks"])
    raise BadInput(f"{path}: benchmark: {name} (one of: {known}, or one of them with @cpu or @gpu)")


def _recorded(result: dict[str, Any]) -> Definition:
    """Returns what a result.json was measured with, custom where it says so."""
    text, identity = result["definition"], result["identity"]
    overrides = tuple(identity.get("overrides", ()))
    return Definition(text, json.loads(text), overrides, identity.get("custom", bool(overrides)))


def _with_stated_sha256(path: Path, name: str | None) -> tuple[Definition, str | None]:
    try:
        raw = path.read_text()
        value = json.loads(raw)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadInput(f"{path}: {error} (a definition as JSON)") from error
    if isinstance(value, dict) and "benchmarks" in value:
        return _listed(value, name, path)
    if isinstance(value, dict) and isinstance(value.get("definition"), str):
        return _recorded(value), value["identity"]["definition_sha256"]
    if isinstance(value, dict) and "model" in value and "benchmark" in value:
        return Definition(raw.strip(), value), None
    raise BadInput(f"{path}: no definition (a definition, a result.json, or `list --json`)")


def load_definition(path: Path, name: str | None = None) -> Definition:
    """From a file with the canonical text, a result.json, or the output of `noisemark list --json`
    together with `name`. A hash that comes with it must be that of the text."""
    definition, sha256 = _with_stated_sha256(path, name)
    if sha256 is not None and sha256 != definition.sha256:
        raise BadInput(f"{path}: definition: SHA-256 {definition.sha256} (recorded: {sha256})")
    return definition
