"""The form of JUnit XML, as a strict check of two schemas that refuse most. One is that of the xUnit plug-in of Jenkins:
junit-10.xsd in src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd of github.com/jenkinsci/xunit-plugin. The
file kept its name while its text changed:

CURRENT  commit 031e285, with the change of July 2025 that allows any number of decimals in a suite's time.
OLDEST   commit 0c37522, before the plug-in's version 2.0 of 2018, with more attributes and fewer that are required.
         ctest 3.25 writes this one.

The other is that of the reports of Apache Ant, which many readers and validators use:

ANT      JUnit.xsd of github.com/windyroad/JUnit-Schema, commit 2378e66. It asks for nearly everything, for one order of
         a suite's children, each of which must be there, and has no attributes at the root.

Every element has exactly the attributes that its schema allows. Stricter than all are: one order of the children, one
outcome of a case, counts that are those of the cases, a time of a suite in at most milliseconds, as the plug-in asked
for from 2.0 until July 2025, and a timestamp without a zone. Reruns, flaky tests and suites within suites are left out.
"""
import datetime
import re
import xml.etree.ElementTree as ElementTree

COUNTS = ("tests", "failures", "errors", "skipped")
# Element -> its attributes (required, allowed).
CURRENT = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"group", "time", "skipped", "timestamp", "hostname", "id",
                                                            "package", "file", "log", "url"}),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name"}, {"time", "classname", "group"}),
    "skipped": (set(), {"message", "type"}),
    "failure": (set(), {"message", "type"}),
    "error": (set(), {"message", "type"}),
    "system-out": (set(), set()),
    "system-err": (set(), set()),
}
OLDEST = CURRENT | {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors", "disabled"}),
    "testsuite": ({"tests"}, {"name", "failures", "errors", "time", "disabled", "skipped", "skips", "timestamp",
                              "hostname", "id", "package", "assertions", "file", "skip", "log", "url"}),
    "testcase": ({"name"}, {"assertions", "time", "timestamp", "classname", "status", "class", "file", "line", "log",
                            "group", "url"}),
}
ANT = CURRENT | {
    "testsuites": (set(), set()),
    "testsuite": ({"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"}, {"skipped"}),
    "testcase": ({"name", "classname", "time"}, set()),
    "failure": ({"type"}, {"message"}),
    "error": ({"type"}, {"message"}),
}
# The attributes in which ANT takes no blank.
NAMES = {"testsuite": ("name", "hostname"), "property": ("name",)}
# Element -> its children in the order in which they may come.
CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["properties", "testcase", "system-out", "system-err"],
    "properties": ["property"],
    "testcase": ["skipped", "error", "failure", "system-out", "system-err"],
}
OUTCOMES = {"skipped": "skipped", "failure": "failures", "error": "errors"}


def problems(text: str, schema=CURRENT) -> list[str]:
    """Returns what keeps `text` from being the form of that schema; empty when nothing does."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        return [f"not XML: {error}"]
    if root.tag not in ("testsuites", "testsuite"):
        return [f"the root is {root.tag}"]
    return [*_of_element(root, schema), *_of_counts(root), *(_of_ant(root) if schema is ANT else [])]


def _of_ant(root) -> list[str]:
    found = []
    for place, suite in enumerate(root.findall("testsuite")):
        if suite.get("id") != str(place):
            found.append(f"suite {place} has the id {suite.get('id')}")
        for name in ("properties", "system-out", "system-err"):
            if len(suite.findall(name)) != 1:
                found.append(f"{suite.get('name')} has {len(suite.findall(name))} {name}")
    for element in root.iter():
        for name in NAMES.get(element.tag, ()):
            if not element.get(name, "").split():
                found.append(f"{element.tag} has a blank {name}")
        if "time" in element.attrib and not re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)", element.get("time")):
            found.append(f"no decimal: {element.get('time')}")
    return found


def _of_element(element, schema) -> list[str]:
    found = []
    required, allowed = schema[element.tag]
    names = set(element.attrib)
    found += [f"{element.tag} lacks {name}" for name in sorted(required - names)]
    found += [f"{element.tag} may not have {name}" for name in sorted(names - required - allowed)]
    found += _of_values(element)
    order = CHILDREN.get(element.tag, [])
    place = 0
    for child in element:
        if child.tag not in order:
            found.append(f"{element.tag} may not hold {child.tag}")
            continue
        if order.index(child.tag) < place:
            found.append(f"in {element.tag}, {child.tag} comes too late")
        place = max(place, order.index(child.tag))
        found += _of_element(child, schema)
    if element.tag == "testcase" and sum(child.tag in OUTCOMES for child in element) > 1:
        found.append(f"{element.get('name')} has several outcomes")
    return found


def _of_values(element) -> list[str]:
    found = []
    for name in COUNTS + ("disabled",):
        if name in element.attrib and not element.get(name).isdigit():
            found.append(f"{name} is no count: {element.get(name)}")
    if element.tag != "testcase" and not re.fullmatch(r"[0-9,]*(\.[0-9]{0,3})?", element.get("time", "")):
        found.append(f"{element.tag} has no time in seconds and milliseconds: {element.get('time')}")
    try:
        if "time" in element.attrib and float(element.get("time")) < 0:
            found.append("a negative time")
        if "timestamp" in element.attrib:
            datetime.datetime.strptime(element.get("timestamp"), "%Y-%m-%dT%H:%M:%S")
    except ValueError as error:
        found.append(str(error))
    return found


def counts(element) -> dict[str, int]:
    """Counts the cases below an element."""
    cases = list(element.iter("testcase"))
    sums = dict.fromkeys(COUNTS, 0) | {"tests": len(cases)}
    for case in cases:
        for child in case:
            if child.tag in OUTCOMES:
                sums[OUTCOMES[child.tag]] += 1
    return sums


def _of_counts(root) -> list[str]:
    found = []
    for element in [root, *root.findall("testsuite")]:
        for name, count in counts(element).items():
            if name in element.attrib and int(element.get(name)) != count:
                found.append(f"{element.get('name')}: {name} is {element.get(name)}, and there are {count}")
    return found
