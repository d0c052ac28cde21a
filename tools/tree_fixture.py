"""A small source tree in a temporary directory, for tests of the checks."""

import pathlib
import tempfile
import unittest


class TreeTest(unittest.TestCase):
    def setUp(self):
        self._directory = tempfile.TemporaryDirectory(prefix="yonder-tree-")
        self.addCleanup(self._directory.cleanup)
        self.root = pathlib.Path(self._directory.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def assert_one_problem(self, problems, *words):
        """Exactly one problem, and it contains each of the words."""
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])
