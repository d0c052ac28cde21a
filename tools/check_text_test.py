#!/usr/bin/env python3
"""Shows that check_text.py finds each kind of fault, and spares what only looks like one."""

import unittest

import check_text
from tree_fixture import TreeTest


class TextTest(TreeTest):
    def problems(self):
        return check_text.check(self.root)

    def test_accepts_a_clean_tree(self):
        self.write("yonder/base/a.h", "#pragma once\n// What a is.\n")
        self.write("docs/base.md", "# The base\n\nSee [below](#two-words) and [home](../README.md#start).\n\n## Two words\n")
        self.write("README.md", "# Start\n")
        self.assertEqual(self.problems(), [])

    def test_finds_a_path_of_a_machine(self):
        self.write("a.txt", "fine\nsee /ho" + "me/somebody/file\n")
        self.assert_one_problem(self.problems(), "a.txt:2", "one machine")

    def test_spares_relative_paths_and_variables(self):
        self.write("a.txt", "src/ho" + "me/x ${X}/ro" + "ot/y\n")
        self.assertEqual(self.problems(), [])

    def test_finds_a_registry(self):
        self.write("a.txt", "fetch https://registry.npm" + "js.org/x\n")
        self.assert_one_problem(self.problems(), "registry")

    def test_finds_notes_of_undone_work(self):
        for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
            self.write("a.cc", f"// {word}: later\n")
            self.assert_one_problem(self.problems(), "undone", word)

    def test_spares_templates_of_temporary_names(self):
        self.write("a.sh", "mktemp -d x.XXXXXX\n")
        self.assertEqual(self.problems(), [])

    def test_finds_a_file_that_is_too_long(self):
        self.write("a.cc", "int x;\n" * (check_text.MAX_LINES + 1))
        self.assert_one_problem(self.problems(), "split it")

    def test_finds_headers_without_guard_or_opening_comment(self):
        self.write("a.h", "// A comment.\n#pragma once\n")
        self.assertEqual(len(self.problems()), 2)
        self.write("a.h", "#pragma once\n#include <vector>\n")
        self.assert_one_problem(self.problems(), "a comment that says what the header is")

    def test_finds_a_folder_without_a_page(self):
        self.write("yonder/base/a.h", "#pragma once\n// What a is.\n")
        self.write("yonder/testing/t.h", "#pragma once\n// Needs no page.\n")
        self.assert_one_problem(self.problems(), "docs/base.md")

    def test_finds_links_that_lead_nowhere(self):
        self.write("docs/a.md", '# A\n[b](b.md)\n<img src="images/c.svg">\n')
        self.assertEqual(len(self.problems()), 2)

    def test_finds_an_anchor_that_is_no_heading(self):
        self.write("a.md", "# Here\n[x](#there)\n")
        self.assert_one_problem(self.problems(), "a.md:2", "no heading")

    def test_spares_links_in_code_and_to_the_web(self):
        self.write("a.md", "`[x](y)` [z](https://example.org)\n```\n[x](y)\n```\n")
        self.assertEqual(self.problems(), [])

    def test_finds_a_record_without_a_row_or_with_a_taken_number(self):
        self.write("docs/adr/README.md", "[1](0001-a.md)\n")
        self.write("docs/adr/0001-a.md", "")
        self.assertEqual(self.problems(), [])
        self.write("docs/adr/0002-b.md", "")
        self.assert_one_problem(self.problems(), "0002-b.md", "no row")
        self.write("docs/adr/README.md", "[1](0001-a.md) [1](0001-b.md)\n")
        (self.root / "docs/adr/0002-b.md").rename(self.root / "docs/adr/0001-b.md")
        self.assertEqual(len(self.problems()), 2)

    def test_spares_inputs_of_fuzzers(self):
        self.write("fuzz/corpus/frame/1", "/ro" + "ot/x\n")
        self.assertEqual(self.problems(), [])


if __name__ == "__main__":
    unittest.main()
