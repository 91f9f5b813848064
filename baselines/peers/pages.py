"""Pages for people, as Noisemark's own are finished (finished_page() of reports/base/markdown.h)."""

import re
from pathlib import Path

_UNIT = (r"(?:(?:[kMGTPE]?(?:FLOP|B|Hz)|[KMGTP]iB|%|min|s|ms|us|ns|bytes|images|J|W|C)(?:/[A-Za-z]+)?|/s)"
         r"(?![A-Za-z0-9%/])")
_BETWEEN = re.compile(rf"(?P<code>```.*?```|`[^`]*`)|(?<=[0-9])(?P<end>[*\])]*) (?={_UNIT})", re.DOTALL)


def finished(page: str) -> str:
    """The page with a no-break space between every number and its unit; code stays as it is."""
    return _BETWEEN.sub(lambda found: found["code"] or f"{found['end']}\u00a0", page)


def write(file: Path, page: str) -> None:
    file.write_text(finished(page))


def read(file: Path) -> str:
    """A page as it was before it was finished."""
    return file.read_text().replace("\u00a0", " ")
