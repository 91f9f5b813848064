"""Tests which text a peer's result was made by, in repositories that are made here."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import tiny  # noqa: F401  (finds the peers' modules)
from peer_result import SourceState, source_state


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    return subprocess.check_output(["git", *identity, "-C", folder, *words], text=True).strip()


class SourceStateTest(unittest.TestCase):
    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.checkout = Path(self._folder.name).resolve() / "checkout"
        (self.checkout / "part").mkdir(parents=True)
        git(self.checkout, "init", "-q")
        (self.checkout / "part" / "a.py").write_text("a = 1\n")
        git(self.checkout, "add", ".")
        git(self.checkout, "commit", "-q", "-m", "a")
        self.commit = git(self.checkout, "rev-parse", "HEAD")

    def state(self) -> SourceState:
        return source_state(self.checkout, "part")

    def test_a_clean_checkout_is_its_commit(self) -> None:
        self.assertEqual(self.state(), SourceState(self.commit))

    def test_changes_elsewhere_do_not_count(self) -> None:
        (self.checkout / "notes").write_text("x")
        self.assertEqual(self.state(), SourceState(self.commit))

    def test_a_changed_line_and_a_new_file_are_changes_of_their_own(self) -> None:
        (self.checkout / "part" / "a.py").write_text("a = 2\n")
        changed = self.state()
        (self.checkout / "part" / "b.py").write_text("b = 1\n")
        added = self.state()
        (self.checkout / "part" / "b.py").write_text("b = 2\n")
        other = self.state()
        for state in (changed, added, other):
            self.assertEqual((state.commit, state.dirty), (self.commit, True))
        self.assertEqual(len({changed.diff_sha256, added.diff_sha256, other.diff_sha256}), 3)

    def test_a_folder_inside_another_repository_has_no_commit(self) -> None:
        self.assertEqual(source_state(self.checkout / "part", "."), SourceState())

    def test_a_folder_outside_any_repository_has_no_commit(self) -> None:
        outside = Path(self._folder.name) / "outside"
        (outside / "part").mkdir(parents=True)
        self.assertEqual(source_state(outside, "part"), SourceState())


if __name__ == "__main__":
    unittest.main()
