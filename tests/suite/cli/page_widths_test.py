"""page_widths_test.py NOISEMARK: no table of any page that the program writes is cut at the width of a repository page.

The pages are those of every command that writes Markdown, of short runs, and those that this repository keeps. Chromium lays them
out in GitHub's style. The letters are DejaVu's condensed ones, whose digits are 9.2 pixels wide at 16 pixels: a bit wider than those
of Segoe UI and Arial (8.6 and 8.9), which readers have. Exit code 77 where no Chromium is installed, 1 if NOISEMARK_REQUIRE has
browser.
"""
import html
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "tests/reports/html"), str(SOURCE / "tests/parity")]
import browser  # noqa: E402
import peers_required  # noqa: E402

WIDTH = 1012
STYLE = f"""<!doctype html><meta charset=utf-8><style>
body {{ margin: 0 }} article {{ width: {WIDTH}px; font: 16px/1.5 'DejaVu Sans Condensed', Arial; overflow-wrap: break-word }}
table {{ display: block; width: max-content; max-width: 100%; overflow: auto; border-spacing: 0; border-collapse: collapse }}
td {{ padding: 6px 13px; border: 1px solid #d1d9e0 }}
code {{ font: 85% 'DejaVu Sans Mono', monospace; padding: .2em .4em; white-space: break-spaces }}
</style><article>"""

WORK = ["--device=cpu", "--threads=1", "--set=eval.samples=8", "--set=train.steps=24", "--set=eval.every=24"]
RUN = ["gmm16-ho@cpu", *WORK, "--set=train.batch=4"]
# Each command with its arguments; its page is its output. "{}" is a folder for all of them.
COMMANDS = {
    "run": [*RUN, "--mode=none", "--mode=echo", "--mode=echo+dpr8", "--mode=budget:40MiB", "--seeds=2", "--looks=2",
            "--out={}/seeds"],
    "table": ["{}/seeds"], "quality": ["{}/seeds"], "history": ["{}/seeds"],
    "compare": ["{}/seeds/gmm16-ho@cpu/none-plain-fp32-seed0", "{}/seeds/gmm16-ho@cpu/none-plain-fp32-seed1"],
    "sweep": ["gmm16-ho@cpu", *WORK, "--axis=mode=none,echo", "--axis=batch=2,4", "--axis=optimizer.lr=0.001", "--out={}/sweep"],
    "predict": ["gmm16-ho@cpu", *WORK, "--mode=none", "--mode=echo", "--out={}/predict"],
    "profile": [*RUN, "--mode=echo", "--sampling=1,4", "--shapes", "--out={}/profile"],
    "trace": ["{}/profile/trace.json.gz"],
    "plan": [*RUN, "--budget=40MiB,error=0.1"],
    "fit": [*RUN, "--memory=60MiB", "--mode=none", "--mode=echo"],
    "ab": [*RUN, "--a={program}", "--b={program}", "--seconds=2"],
    "calibrate": [*RUN, "--units=1", "--seconds=2"],
    "selftest": [], "list": [], "doctor": [], "help": ["--markdown"],
}


def inline(text: str) -> str:
    """HTML of a cell: code spans, links, bold and escaped letters."""
    pieces = re.split(r"(`+)(.+?)\1", text.replace("\\|", "|"))
    made = ""
    for i in range(0, len(pieces), 3):
        plain = html.escape(pieces[i], False).replace("&lt;br&gt;", "<br>")
        plain = re.sub(r"\\([\\`*_{}\[\]<>()#+.!|-])", r"\1", plain)
        made += re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", plain))
        made += f"<code>{html.escape(pieces[i + 2])}</code>" if i + 2 < len(pieces) else ""
    return made


def tables(page: str) -> list[str]:
    """HTML of every table of a page; what stands in a block of code is none."""
    found, rows, code = [], [], False
    for line in [*page.splitlines(), ""]:
        code ^= line.startswith("```")
        if line.startswith("|") and not code:
            rows.append([inline(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            continue
        if len(rows) > 1:  # the second line is the rule
            found.append("<table>" + "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows[:1] + rows[2:]) + "</table>")
        rows = []
    return found


class Widths(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="noisemark-widths-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)

    def assert_fits(self, name: str, page: str):
        file = self.folder / "page.html"
        found = tables(page)
        file.write_text(STYLE + "".join(found))
        self.browser.open(file)
        for table, width in zip(found, self.browser.value("[...document.querySelectorAll('table')].map((t) => t.scrollWidth)")):
            with self.subTest(page=name):
                self.assertLessEqual(width, WIDTH, table[:1000])

    def test_a_table_that_is_too_wide_is_seen(self):
        wide = "| a | b |\n| - | - |\n| `" + "x" * 60 + "` | `" + "y" * 60 + "` |\n"
        (self.folder / "page.html").write_text(STYLE + tables(wide)[0])
        self.browser.open(self.folder / "page.html")
        self.assertGreater(self.browser.value("document.querySelector('table').scrollWidth"), WIDTH)

    def test_every_page_that_a_command_writes_fits(self):
        for command, words in COMMANDS.items():
            words = [word.replace("{program}", NOISEMARK).replace("{}", str(self.folder)) for word in words]
            done = subprocess.run([NOISEMARK, command, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  env=os.environ | {"NOISEMARK_REQUIRE": ""}, check=False)
            self.assertIn(done.returncode, (0, 1, 3, 4, 5), f"{command}: {done.stderr}")
            self.assert_fits(command, done.stdout)
        pages = sorted(self.folder.rglob("*.md"))
        self.assertGreater(len(pages), 10)
        for page in pages:
            self.assert_fits(str(page.relative_to(self.folder)), page.read_text())

    def test_every_page_of_the_repository_fits(self):
        folders = ("reports", "suite", "memopt", "baselines", "containers", "tests")
        pages = [SOURCE / "README.md"] + [page for folder in folders for page in sorted((SOURCE / folder).rglob("*.md"))]
        self.assertGreater(len(pages), 50)
        for page in pages:
            self.assert_fits(str(page.relative_to(SOURCE)), page.read_text())


if __name__ == "__main__":
    if browser.PROGRAM is None:
        peers_required.no_browser()
    NOISEMARK = sys.argv.pop(1)
    unittest.main()
