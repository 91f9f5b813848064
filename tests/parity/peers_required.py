"""Decides what becomes of a test that cannot import the Python peers, or whatever else it compares with."""

import os
import sys
from typing import NoReturn


def is_required(word: str) -> bool:
    """Returns whether the environment says that this is here: NOISEMARK_REQUIRE=peers, for example, also in a list."""
    return word in os.environ.get("NOISEMARK_REQUIRE", "").split(",")


def are_required() -> bool:
    """Returns whether everything can be imported here."""
    return is_required("peers")


def cannot_import(error: ImportError) -> NoReturn:
    """Ends the program: skipped (exit code 77), or failed where everything is required."""
    words = "NOISEMARK_REQUIRE has peers, and they cannot be imported" if are_required() else "skipped"
    print(f"{words}: {error}")
    sys.exit(1 if are_required() else 77)


def not_given(variable: str, meaning: str) -> NoReturn:
    """Ends the test as skipped: what no package registry has is compared with where somebody names it."""
    print(f"skipped: {variable} is not set ({meaning})")
    sys.exit(77)


def not_installed(package: str, command: str) -> NoReturn:
    """Ends the test as skipped: the set-up does not install the package."""
    print(f"skipped: Python has no {package} ({command})")
    sys.exit(77)


def no_browser() -> NoReturn:
    """Ends the test: skipped (exit code 77), since the set-up installs none, or failed where one is required."""
    words = "NOISEMARK_REQUIRE has browser, and" if is_required("browser") else "skipped:"
    print(f"{words} no Chromium is installed")
    sys.exit(1 if is_required("browser") else 77)
