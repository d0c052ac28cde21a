#!/usr/bin/env python3
"""Shows that check_tests_built.py notices each kind of forgotten file."""

import unittest

import check_tests_built
from tree_fixture import TreeTest


class TestsBuiltTest(TreeTest):
    def problems(self):
        return check_tests_built.check(self.root)

    def test_accepts_named_tests(self):
        self.write("yonder/base/CMakeLists.txt", "yonder_library(base TESTS a_test.cc)")
        self.write("yonder/base/a_test.cc", "")
        self.write("tests/CMakeLists.txt", "yonder_test(e2e/b_test.cc)")
        self.write("tests/e2e/b_test.cc", "")
        self.write("tools/CMakeLists.txt", "add_test(NAME t COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/t_test.py)")
        self.write("tools/t_test.py", "")
        self.assertEqual(self.problems(), [])

    def test_finds_a_test_that_nothing_names(self):
        self.write("yonder/base/CMakeLists.txt", "yonder_library(base TESTS a_test.cc)")
        self.write("yonder/base/b_test.cc", "")
        self.assert_one_problem(self.problems(), "yonder/base/b_test.cc", "no CMakeLists.txt names")

    def test_does_not_take_a_comment_or_a_longer_name_for_a_mention(self):
        self.write("yonder/base/CMakeLists.txt", "yonder_library(base TESTS aa_test.cc)  # not a_test.cc")
        self.write("yonder/base/a_test.cc", "")
        self.assert_one_problem(self.problems(), "a_test.cc")

    def test_finds_a_fuzzer_that_is_not_registered(self):
        self.write("fuzz/CMakeLists.txt", "set(later frame_fuzz.cc)")
        self.write("fuzz/frame_fuzz.cc", "")
        self.write("fuzz/corpus/frame_fuzz/empty", "")
        self.assert_one_problem(self.problems(), "fuzz/frame_fuzz.cc", "yonder_fuzzer()")
        self.write("fuzz/CMakeLists.txt", "yonder_fuzzer(frame_fuzz.cc LIBS x)")
        self.assertEqual(self.problems(), [])

    def test_finds_a_fuzzer_without_kept_inputs(self):
        self.write("fuzz/CMakeLists.txt", "yonder_fuzzer(frame_fuzz.cc)")
        self.write("fuzz/frame_fuzz.cc", "")
        self.assert_one_problem(self.problems(), "no inputs are kept in fuzz/corpus/frame_fuzz/")

    def test_finds_a_benchmark_without_a_smoke_test(self):
        self.write("bench/all.cc", 'Benchmark{"ring", "how fast a ring is", &run_ring},')
        self.write("bench/CMakeLists.txt", "add_subdirectory(ring)\nset_tests_properties(x PROPERTIES LABELS smoke)")
        self.assert_one_problem(self.problems(), "bench/all.cc", "no smoke test runs the benchmark ring")
        self.write("bench/CMakeLists.txt", "add_test(NAME ring_bench COMMAND yonder bench ring)")
        self.assert_one_problem(self.problems(), "no smoke test runs the benchmark ring")
        self.write("bench/CMakeLists.txt",
                   "add_test(NAME x COMMAND yonder bench ring)\nset_tests_properties(x PROPERTIES LABELS smoke)")
        self.assertEqual(self.problems(), [])


if __name__ == "__main__":
    unittest.main()
