"""Each variant has one name, and no other is taken."""

import unittest

import tiny  # noqa: F401  where the programs are
from endings import BadInput
from variants import VARIANTS, parse_variant


class VariantsTest(unittest.TestCase):
    def test_every_variant_of_the_table_is_found_by_its_name(self) -> None:
        names = [variant.name for variant in VARIANTS]
        self.assertEqual(len(set(names)), len(names))
        for variant in VARIANTS:
            self.assertIs(parse_variant(variant.name), variant)

    def test_a_budget_is_part_of_the_name_in_one_spelling(self) -> None:
        for spelling, name in (("0.5", "0.5"), (".50", "0.5"), ("0", "0"), ("-0", "0"), ("1", "1")):
            variant = parse_variant(f"compiled-budget={spelling}")
            self.assertEqual(variant.name, f"compiled-budget={name}")
            self.assertEqual(variant.budget, float(name))
            self.assertTrue(variant.compiled)

    def test_anything_else_is_refused_with_what_is_accepted(self) -> None:
        for spelling in ("", "fast", "eager=1", "compiled-budget", "compiled-budget=",
                         "compiled-budget=half", "compiled-budget=1.5", "compiled-budget=-0.1",
                         "compiled-budget=nan"):
            with self.assertRaisesRegex(BadInput, "save-on-cpu, compiled-budget=B", msg=spelling):
                parse_variant(spelling)


if __name__ == "__main__":
    unittest.main()
