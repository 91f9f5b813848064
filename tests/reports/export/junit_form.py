"""The form of JUnit XML that Jenkins' xUnit plug-in, GitLab and GitHub's report actions read, as a strict check."""
import datetime
import xml.etree.ElementTree as ElementTree

COUNTS = ("tests", "failures", "errors", "skipped")
# Element -> its attributes (required, allowed) and its children in the order in which they may come.
ATTRIBUTES = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors", "disabled", "skipped"}),
    "testsuite": ({"name", "tests"}, {"time", "failures", "errors", "skipped", "disabled", "timestamp", "hostname",
                                      "id", "package"}),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name"}, {"classname", "time", "assertions", "status"}),
    "skipped": (set(), {"message"}),
    "failure": (set(), {"message", "type"}),
    "error": (set(), {"message", "type"}),
    "system-out": (set(), set()),
    "system-err": (set(), set()),
}
CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["properties", "testcase", "system-out", "system-err"],
    "properties": ["property"],
    "testcase": ["skipped", "error", "failure", "system-out", "system-err", "properties"],
}
OUTCOMES = {"skipped": "skipped", "failure": "failures", "error": "errors"}


def problems(text: str) -> list[str]:
    """What keeps `text` from being that form; empty when nothing does."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        return [f"not XML: {error}"]
    if root.tag not in ("testsuites", "testsuite"):
        return [f"the root is {root.tag}"]
    return [*_of_element(root), *_of_counts(root)]


def _of_element(element) -> list[str]:
    found = []
    required, allowed = ATTRIBUTES[element.tag]
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
        found += _of_element(child)
    if element.tag == "testcase" and sum(child.tag in OUTCOMES for child in element) > 1:
        found.append(f"{element.get('name')} has several outcomes")
    return found


def _of_values(element) -> list[str]:
    found = []
    for name in COUNTS + ("disabled",):
        if name in element.attrib and not element.get(name).isdigit():
            found.append(f"{name} is no count: {element.get(name)}")
    try:
        if "time" in element.attrib and float(element.get("time")) < 0:
            found.append("a negative time")
        if "timestamp" in element.attrib:
            datetime.datetime.strptime(element.get("timestamp"), "%Y-%m-%dT%H:%M:%S")
    except ValueError as error:
        found.append(str(error))
    return found


def counts(element) -> dict[str, int]:
    """Of the cases below an element."""
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
