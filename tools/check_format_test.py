#!/usr/bin/env python3
"""Shows that check_format.py sees a badly formatted file and a missing tool."""

import unittest

import check_format
from tree_fixture import TreeTest


class FormatTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write(".clang-format", "BasedOnStyle: Google\n")

    def test_accepts_formatted_code(self):
        self.write("a.cc", "int main() { return 0; }\n")
        self.assertEqual(check_format.check(self.root), [])

    def test_finds_the_line_that_is_not_formatted(self):
        self.write("a.cc", "int f();\nint  main( ) { return 0; }\n")
        problems = check_format.check(self.root)
        self.assertTrue(problems)
        self.assertIn("a.cc:2: not formatted", problems[0])

    def test_fails_when_the_tool_cannot_run(self):
        self.write("a.cc", "int f();\n")
        self.write(".clang-format", "BasedOnStyle: Nobody\n")
        self.assert_one_problem(check_format.check(self.root), "failed")

    def test_fails_when_the_tool_is_missing(self):
        self.assert_one_problem(check_format.check(self.root, program="no-such-formatter"), "is not installed")


if __name__ == "__main__":
    unittest.main()
