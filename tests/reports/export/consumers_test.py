"""Hands what is exported to those who read it: JUnit XML to a strict check of its form, which also has to accept what
ctest itself writes; CTestMeasurement lines, whose form is that of "Additional Test Measurements" in the manual of
ctest_test of CMake 3.25, to a real ctest, whose Test.xml must hold every figure.

Usage: consumers_test.py noisemark_export_probe ctest
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import junit_form

PROBE, CTEST = sys.argv[1:3]
LINE = re.compile(r'<CTestMeasurement type="numeric/double" name="([^"]*)">([^<]*)</CTestMeasurement>')


class Consumers(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        subprocess.run([PROBE, self.folder], check=True)

    def ctest(self, test: str) -> pathlib.Path:
        """Runs one test; the folder of Test.xml and junit.xml."""
        place = self.folder / "ctest"
        place.mkdir(exist_ok=True)
        (place / "CTestTestfile.cmake").write_text(f"add_test({test})\n")
        (place / "DartConfiguration.tcl").write_text(
            f"BuildDirectory: {place}\nSourceDirectory: {place}\nSite: here\nBuildName: figures\n")
        subprocess.run([CTEST, "-M", "Experimental", "-T", "Test", "--output-junit", place / "junit.xml"], cwd=place,
                       check=True, stdout=subprocess.DEVNULL)
        return place

    def test_ctest_takes_every_figure_out_of_a_tests_output(self):
        for name in ("results.txt", "comparison.txt"):
            place = self.ctest(f"figures cat {self.folder / name}")
            lines = dict(LINE.findall((self.folder / name).read_text()))
            self.assertGreater(len(lines), 1)
            root = ElementTree.parse(next(place.glob("Testing/*/Test.xml"))).getroot()
            taken = {node.get("name"): node.findtext("Value") for node in root.iter("NamedMeasurement")
                     if node.get("type") == "numeric/double"}
            for figure, value in lines.items():
                self.assertEqual(float(taken[figure]), float(value), figure)
            for tag in place.glob("Testing"):
                subprocess.run(["rm", "-r", tag], check=True)

    def test_junit_of_ours_has_the_form_of_every_schema_and_that_of_ctest_of_the_oldest(self):
        for name in ("results.xml", "comparison.xml"):
            for schema in (junit_form.CURRENT, junit_form.OLDEST, junit_form.ANT):
                self.assertEqual(junit_form.problems((self.folder / name).read_text(), schema), [], name)
        ctest = self.ctest("passes true") / "junit.xml"
        self.assertEqual(junit_form.problems(ctest.read_text(), junit_form.OLDEST), [])
        self.assertIn("testsuite may not have disabled", junit_form.problems(ctest.read_text()))

    def test_the_forms_have_no_count_of_what_was_skipped_at_the_root_and_no_more_than_milliseconds(self):
        good = (self.folder / "results.xml").read_text()
        skipped = junit_form.counts(ElementTree.fromstring(good))["skipped"]
        counted = good.replace("<testsuites>", f'<testsuites skipped="{skipped}">')
        finer = re.sub(r'(<testsuite [^>]* time="[0-9.]*)', r"\g<1>5", good, count=1)
        for schema in (junit_form.CURRENT, junit_form.OLDEST, junit_form.ANT):
            self.assertEqual(junit_form.problems(counted, schema), ["testsuites may not have skipped"])
            self.assertRegex(" ".join(junit_form.problems(finer, schema)), "^testsuite has no time in seconds and ")

    def test_the_form_of_ant_has_a_name_a_time_a_host_and_every_child(self):
        good = (self.folder / "results.xml").read_text()
        for what, found, wrong in [("host", ' hostname="localhost"', ""), ("host", '"localhost"', '" "'),
                                   ("number", ' id="0"', ' id="1"'), ("type", ' type="gate"', ""),
                                   ("properties", "<properties>", "<system-out></system-out><properties>"),
                                   ("output", "<system-err></system-err>", ""), ("root", "<testsuites>", '<testsuites tests="9">')]:
            changed = good.replace(found, wrong, 1)
            self.assertNotEqual(changed, good, what)
            self.assertNotEqual(junit_form.problems(changed, junit_form.ANT), [], what)

    def test_the_check_of_the_form_finds_what_is_wrong(self):
        good = (self.folder / "results.xml").read_text()
        for what, found, wrong in [("cut", "</testsuites>", ""), ("count", 'failures="', 'failures="9'),
                                   ("attribute", "<testcase ", '<testcase verdict="x" '),
                                   ("element", "<properties>", "<meta/><properties>"),
                                   ("order", "  </testsuite>", "  <properties/></testsuite>"),
                                   ("time", 'T03:04:05"', 'T03:04:05Z"')]:
            changed = good.replace(found, wrong, 1)
            self.assertNotEqual(changed, good, what)
            self.assertNotEqual(junit_form.problems(changed), [], what)

    def test_outcomes_are_those_of_the_results(self):
        root = ElementTree.parse(self.folder / "results.xml").getroot()
        cases = {(suite.get("name").split(",")[0], case.get("name")): [child.tag for child in case]
                 for suite in root for case in suite.findall("testcase")}
        self.assertEqual(cases[("d@cpu/none", "run")], ["error"])
        self.assertEqual(cases[("e@gpu/none", "run")], ["skipped"])
        self.assertEqual(junit_form.counts(root)["failures"], 2, "the failed run and its gate")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
