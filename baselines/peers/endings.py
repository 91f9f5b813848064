"""Errors that know their exit code, and what turns them into a sentence and that code."""

import subprocess
import sys
from collections.abc import Callable

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_CANNOT_RUN_HERE = 77


class Failure(Exception):
    """The program ends with this exit code, EXIT_FAILED unless a class below says another."""

    exit_code = EXIT_FAILED


class BadInput(Failure):
    """Something that the user can put right."""

    exit_code = EXIT_BAD_INPUT


class CannotRunHere(Failure):
    """The machine or the peers lack something."""

    exit_code = EXIT_CANNOT_RUN_HERE


def exit_code_of(command: Callable[[], int], option: str = "", failed: int = EXIT_FAILED) -> int:
    """Runs the command. The error of a file or of a program that it starts is told behind the option that named it;
    where a verdict has EXIT_FAILED, other failures have the code `failed`."""
    try:
        return command()
    except Failure as error:
        print(error, file=sys.stderr)
        return failed if error.exit_code == EXIT_FAILED else error.exit_code
    except ImportError as error:
        print(f"the peers cannot be imported: {error} (containers/setup.sh test puts them into build/venv)", file=sys.stderr)
        return EXIT_CANNOT_RUN_HERE
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{option}: {error}" if option else error, file=sys.stderr)
        return EXIT_BAD_INPUT if option or isinstance(error, OSError) else failed
