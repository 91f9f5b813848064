"""Says where the contestants of a table train, and which scale of a benchmark belongs there. Needs no torch."""

import re

from endings import BadInput

CPU = "cpu"
GPU = "gpu"


def checked_device(name: str) -> str:
    """The name as it is, or BadInput."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise BadInput(f"--device: {name} (cpu, cuda or cuda:N)")
    return name


def scale_of(device: str) -> str:
    """The scale that Noisemark takes on a device where none is named."""
    return CPU if device == CPU else GPU


def titled(benchmark: str, device: str) -> str:
    """ID@SCALE; a scale that is named stays."""
    return benchmark if "@" in benchmark else f"{benchmark}@{scale_of(device)}"


def asked_for(benchmark: str, device: str) -> str:
    """Returns how the benchmark is named to a contestant. An ID alone is a peer's @cpu."""
    return benchmark if device == CPU else titled(benchmark, device)
