#!/usr/bin/env python3
"""Gives report.py streams as the guest makes them."""

import pathlib
import re
import subprocess
import sys
import unittest

REPORT = pathlib.Path(__file__).resolve().parent / "report.py"
PASSING = "[ RUN      ] A.B\n[       OK ] A.B (1 ms)\n[==========] 12 tests from 3 test suites ran. (7 ms total)\n"
FAILING = ("why it failed\n[  FAILED  ] Verbs/A.B/checksum, where GetParam() = checksum (31 ms)\n"
           "[  FAILED  ] A.C (2 ms)\n[==========] 3 tests from 2 test suites ran. (40 ms total)\n"
           "[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] Verbs/A.B/checksum, where GetParam() = checksum\n")


def begin(line, output):
    return f"m begin {line}\n{output}"


def ran(line, output, status):
    return begin(line, output) + f"\nm end {status}\n"


class ReportTest(unittest.TestCase):
    def report(self, stream):
        """Status and output, with every duration as N."""
        result = subprocess.run([sys.executable, "-B", REPORT, "m"], input=stream, capture_output=True, text=True,
                                check=False, timeout=60)
        self.assertEqual(result.stderr, "")
        return result.returncode, re.sub(r"\(\d+\.\d s", "(N s", result.stdout)

    def test_says_one_line_of_what_passed(self):
        self.assertEqual(self.report(ran("/a/b/one_test --gtest_filter=*X*", PASSING, 0) + ran("/c/two.sh /d/e kill", "x", 0)),
                         (0, "one_test --gtest_filter=*X*: passed (N s, 12 tests)\n"
                             "two.sh e kill: passed (N s)\nin the guest: 2 passed, 0 failed\n"))

    def test_tells_all_of_what_failed_at_the_end(self):
        status, output = self.report(ran("/bin/bad_test", FAILING, 1) + ran("/bin/good_test", PASSING, 0))
        self.assertEqual(status, 1)
        self.assertEqual(output, "bad_test: failed with status 1 (N s, 3 tests)\ngood_test: passed (N s, 12 tests)\n"
                                 "in the guest: 1 passed, 1 failed\nfailed: bad_test (Verbs/A.B/checksum, A.C)\n"
                                 "==== output of bad_test, which failed with status 1:\n" + FAILING)

    def test_a_program_that_did_not_end_has_failed(self):
        status, output = self.report(ran("/bin/good_test", PASSING, 0) + begin("/bin/slow_test", "half a li"))
        self.assertEqual(status, 1)
        self.assertTrue(output.endswith("failed: slow_test\n==== output of slow_test, which did not end:\nhalf a li\n"), output)

    def test_passes_on_what_is_said_outside_programs(self):
        self.assertEqual(self.report("no device\n" + ran("a", "", 0) + "the kernel complained\n"),
                         (0, "no device\na: passed (N s)\nthe kernel complained\nin the guest: 1 passed, 0 failed\n"))

    def test_keeps_bytes_that_are_no_text(self):
        result = subprocess.run([sys.executable, "-B", REPORT, "m"], input=b"m begin a\n\xff\x00\n\nm end 1\n",
                                capture_output=True, check=False, timeout=60)
        self.assertTrue(result.stdout.endswith(b":\n\xff\x00\n"), result.stdout)

    def test_takes_no_other_word_for_its_mark(self):
        status, output = self.report(ran("a", "m2 end 0\nsay m end 0\n", 3))
        self.assertEqual(status, 1)
        self.assertIn("m2 end 0\nsay m end 0\n", output)


if __name__ == "__main__":
    unittest.main()
