"""What becomes of a test that cannot import the Python peers, or whatever else it compares with."""

import os
import sys
from typing import NoReturn


def are_required() -> bool:
    """Whether the environment says that everything can be imported here: NOISEMARK_REQUIRE=peers, also in a list."""
    return "peers" in os.environ.get("NOISEMARK_REQUIRE", "").split(",")


def cannot_import(error: ImportError) -> NoReturn:
    """Ends the program: skipped (exit code 77), or failed where everything is required."""
    words = "NOISEMARK_REQUIRE has peers, and they cannot be imported" if are_required() else "skipped"
    print(f"{words}: {error}")
    sys.exit(1 if are_required() else 77)


def is_not_installed(program: str) -> NoReturn:
    """Ends the test as skipped (exit code 77): the set-up does not install the program, so nothing requires it."""
    print(f"skipped: no {program} is installed")
    sys.exit(77)
