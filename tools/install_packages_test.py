#!/usr/bin/env python3
"""Runs install-packages with a fake dpkg-query, apt-get, id and sudo."""

import os
import pathlib
import subprocess
import unittest

from tree_fixture import TreeTest

SCRIPT = pathlib.Path(__file__).resolve().parent / "install-packages"


class InstallPackagesTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("packages.txt", "# comment\n[build]\ncompiler  # why\n[test]\ntester\n")
        self.write("installed", "")
        self.write("calls", "")
        # Installing is adding the names to the list that dpkg-query looks at.
        self.program("dpkg-query", 'grep -qx "${@: -1}" "$R/installed" && echo installed')
        self.program("apt-get", 'echo "$*" >>"$R/calls"; [ -z "${APT_FAILS:-}" ] || exit 100; printf "%s\\n" "$@" >>"$R/installed"')
        self.program("id", 'echo "${FAKE_UID:-0}"')
        self.program("sudo", '[ "${FAKE_SUDO:-0}" = 1 ] || exit 1; [ "$1" != -n ] || shift; exec "$@"')

    def program(self, name, body):
        self.write(f"bin/{name}", f"#!/bin/bash\nR={self.root}\n{body}\n")
        (self.root / "bin" / name).chmod(0o755)

    def run_script(self, *groups, **environment):
        environment |= {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "YONDER_PACKAGES": str(self.root / "packages.txt")}
        return subprocess.run([SCRIPT, *groups], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)

    def calls(self):
        return (self.root / "calls").read_text(encoding="utf-8")

    def test_leaves_apt_alone_when_all_is_there(self):
        self.write("installed", "compiler\n")
        result = self.run_script("build")
        self.assertEqual((result.returncode, result.stderr, self.calls()), (0, "", ""))

    def test_installs_what_is_missing_in_the_groups_it_is_given(self):
        self.write("installed", "compiler\n")
        result = self.run_script("build", "test")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tester", self.calls())
        self.assertNotIn("compiler", self.calls())

    def test_uses_sudo_when_it_is_not_root(self):
        self.assertEqual(self.run_script("build", FAKE_UID="1000", FAKE_SUDO="1").returncode, 0)
        self.assertIn("compiler", self.calls())

    def test_names_what_is_missing_in_one_line_without_root(self):
        result = self.run_script("build", "test", FAKE_UID="1000")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("apt-get install -y compiler tester", result.stderr)
        self.assertEqual(self.calls(), "")

    def test_only_looks_when_it_is_asked_to(self):
        result = self.run_script("--check", "build")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("apt-get install -y compiler", result.stderr)
        self.assertEqual(self.calls(), "")

    def test_fetches_new_lists_once_when_installing_fails(self):
        result = self.run_script("build", APT_FAILS="1")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("apt-get could not install compiler", result.stderr)
        self.assertIn(" update", self.calls())

    def test_refuses_an_unknown_group(self):
        result = self.run_script("nonsense")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no group nonsense", result.stderr)


if __name__ == "__main__":
    unittest.main()
