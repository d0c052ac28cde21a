#!/usr/bin/env python3
"""Shows that check_layers.py finds each kind of fault in a small tree."""

import unittest

import check_layers
from tree_fixture import TreeTest


class LayersTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.library("base", "a.h")
        self.library("os", "b.h", uses="base", includes="base/a.h")

    def library(self, folder, header, uses="", test_uses="", includes=None, extra=""):
        name = folder.replace("/", "_")
        self.write(f"yonder/{folder}/CMakeLists.txt",
                   f"yonder_library({name}  # one folder\n  HEADERS {header}\n  USES {uses}\n  TEST_USES {test_uses})\n{extra}")
        self.write(f"yonder/{folder}/{header}", f'#include "yonder/{includes}"\n' if includes else "\n")

    def problems(self):
        return check_layers.check(self.root)

    def test_accepts_a_clean_tree(self):
        self.assertEqual(self.problems(), [])

    def test_finds_an_include_that_uses_does_not_name(self):
        self.write("yonder/sync/CMakeLists.txt", "yonder_library(sync HEADERS c.h)")
        self.write("yonder/sync/c.h", '// c\n#include "yonder/base/a.h"\n')
        self.assert_one_problem(self.problems(), "yonder/sync/c.h:2", "it is not in USES")

    def test_finds_siblings_that_know_each_other(self):
        self.library("sync", "c.h", uses="os", includes="os/b.h")
        self.assert_one_problem(self.problems(), "sync uses its sibling os")

    def test_finds_a_use_of_a_higher_layer(self):
        self.library("telemetry", "t.h")
        self.library("base", "a.h", uses="telemetry", includes="telemetry/t.h")
        self.assert_one_problem(self.problems(), "base uses telemetry, which is above it")

    def test_finds_a_declared_use_that_nothing_includes(self):
        self.library("sync", "c.h", uses="base")
        self.assert_one_problem(self.problems(), "USES base, but no file includes it")

    def test_finds_an_internal_header_used_from_outside(self):
        self.write("yonder/base/internal/secret.h", "\n")
        self.write("apps/tool/main.cc", '#include "yonder/base/internal/secret.h"\n')
        self.assert_one_problem(self.problems(), "apps/tool/main.cc:1", "internal")

    def test_lets_a_folder_use_its_own_internal_header(self):
        self.write("yonder/base/internal/secret.h", "\n")
        self.write("yonder/base/a.cc", '#include "yonder/base/internal/secret.h"\n')
        self.assertEqual(self.problems(), [])

    def test_lets_only_tests_use_testing_and_test_uses(self):
        self.library("sync", "c.h", test_uses="os")
        self.write("yonder/testing/seed.h", "\n")
        text = '#include "yonder/os/b.h"\n#include "yonder/testing/seed.h"\n'
        self.write("yonder/sync/c_test.cc", text)
        self.assertEqual(self.problems(), [])
        self.write("yonder/sync/c.cc", text)
        self.assertEqual(len(self.problems()), 2)

    def test_holds_the_helpers_of_tests_to_their_own_list(self):
        self.write("yonder/testing/seed.h", '#include "yonder/base/a.h"\n')
        self.assertEqual(self.problems(), [])
        self.write("yonder/testing/seed.h", '#include "yonder/os/b.h"\n')
        self.assert_one_problem(self.problems(), "is of os, which testing may not use")

    def test_lets_a_suite_use_what_lies_below_its_folder(self):
        self.library("rpc", "r.h")
        self.library("node", "n.h")
        self.write("yonder/rpc/suite/suite.cc", '#include "yonder/rpc/r.h"\n#include "yonder/os/b.h"\n')
        self.assertEqual(self.problems(), [])
        self.write("yonder/rpc/suite/suite.cc", '#include "yonder/node/n.h"\n')
        self.assert_one_problem(self.problems(), "is of node, which rpc/suite may not use")

    def test_reads_the_libraries_of_a_separate_test(self):
        self.library("sync", "c.h", extra="yonder_test(d_test.cc LIBS yonder::sync yonder::os)")
        self.write("yonder/sync/d_test.cc", '#include "yonder/os/b.h"\n')
        self.assertEqual(self.problems(), [])

    def test_finds_a_folder_without_a_layer(self):
        self.library("attic", "x.h")
        self.assert_one_problem(self.problems(), "attic is not in LAYERS")

    def test_finds_a_file_that_no_library_owns(self):
        self.write("yonder/attic/x.h", "\n")
        self.assert_one_problem(self.problems(), "no yonder_library() owns this file")

    def test_finds_a_library_named_unlike_its_folder(self):
        self.write("yonder/sync/CMakeLists.txt", "yonder_library(base)")
        self.assert_one_problem(self.problems(), "one library, named after it")

    def test_finds_an_unknown_folder_in_uses(self):
        self.library("sync", "c.h", uses="nowhere")
        self.assert_one_problem(self.problems(), "nowhere is no folder")

    def test_finds_short_and_angled_includes(self):
        self.write("yonder/base/short.cc", '#include "a.h"\n')
        self.assert_one_problem(self.problems(), "full path", "a.h")
        self.write("yonder/base/short.cc", "#include <yonder/base/a.h>\n")
        self.assert_one_problem(self.problems(), "full path", "a.h")

    def test_finds_an_include_of_nothing(self):
        self.write("yonder/base/x.cc", '#include "yonder/base/gone.h"\n')
        self.assert_one_problem(self.problems(), "does not exist")

    def test_tells_a_sub_folder_from_its_parent(self):
        self.library("fabric", "f.h")
        self.library("fabric/shm", "s.h", uses="fabric", includes="fabric/f.h")
        self.assertEqual(self.problems(), [])
        self.write("yonder/fabric/up.cc", '#include "yonder/fabric/shm/s.h"\n')
        self.assert_one_problem(self.problems(), "is of fabric/shm, which fabric may not use")


if __name__ == "__main__":
    unittest.main()
