"""Definitions are taken from every form that Noisemark writes, and only with the right hash."""

import json
import tempfile
import unittest
from pathlib import Path

import tiny
from definition import canonical_text, load_definition
from endings import BadInput


class DefinitionTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "definition.json"
        self.text = canonical_text(tiny.LUCID)

    def write(self, value: object) -> Path:
        self.path.write_text(value if isinstance(value, str) else json.dumps(value))
        return self.path

    def listing(self, sha256: str) -> dict[str, object]:
        entry = {"definition": tiny.LUCID, "definition_sha256": sha256}
        return {"benchmarks": [{"id": "tiny", "scales": {"cpu": entry}}]}

    def test_reads_the_canonical_text(self) -> None:
        definition = load_definition(self.write(self.text + "\n"))
        self.assertEqual(definition.text, self.text)
        self.assertEqual(definition.name, "tiny@cpu")

    def test_reads_a_result_and_a_listing_with_the_hash_that_they_state(self) -> None:
        plain = load_definition(self.write(self.text))
        result = {"definition": self.text, "identity": {"definition_sha256": plain.sha256}}
        self.assertEqual(load_definition(self.write(result)), plain)
        self.assertEqual(load_definition(self.write(self.listing(plain.sha256)), "tiny"), plain)
        self.assertEqual(load_definition(self.write(self.listing(plain.sha256)), "tiny@cpu"), plain)

    def test_a_result_tells_what_was_changed(self) -> None:
        sha256 = load_definition(self.write(self.text)).sha256
        for identity, custom in (({}, False), ({"custom": True}, True),
                                 ({"custom": True, "overrides": ["train.batch=4"]}, True)):
            result = {"definition": self.text, "identity": {"definition_sha256": sha256, **identity}}
            definition = load_definition(self.write(result))
            self.assertEqual(definition.custom, custom)
            self.assertEqual(definition.overrides, tuple(identity.get("overrides", ())))

    def test_writes_numbers_as_the_canonical_form_does(self) -> None:
        numbers = {"a": [0.0001, 0.001, 1e-08, 0.0, 1.0, 1e9, 123456.5, 0.6666666666666666], "b": 7}
        self.assertEqual(
            canonical_text(numbers),
            '{"a":[1e-04,0.001,1e-08,0.0,1.0,1e+09,123456.5,0.6666666666666666],"b":7}',
        )

    def test_refuses_another_hash(self) -> None:
        with self.assertRaisesRegex(BadInput, "SHA-256"):
            load_definition(self.write(self.listing("0" * 64)), "tiny")

    def test_refuses_what_is_no_definition_and_says_where(self) -> None:
        for text in ("", "{", "[]", "{}", '{"model": 1}'):
            with self.assertRaisesRegex(BadInput, "definition.json"):
                load_definition(self.write(text))
        with self.assertRaisesRegex(BadInput, "one of: tiny"):
            load_definition(self.write(self.listing("")), "other")
        with self.assertRaisesRegex(BadInput, "--id"):
            load_definition(self.write(self.listing("")))
        with self.assertRaisesRegex(BadInput, "absent.json"):
            load_definition(self.path.with_name("absent.json"))


if __name__ == "__main__":
    unittest.main()
