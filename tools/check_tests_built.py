#!/usr/bin/env python3
"""Checks that no test, fuzzer or benchmark is forgotten.

A test file that no CMakeLists.txt names compiles nowhere and fails never. So:
  1. every *_test.cc and *_test.py is an argument of a command in the
     CMakeLists.txt of its folder (or of a folder above, by its relative path);
  2. every fuzz/NAME.cc is given to yonder_fuzzer() and has kept inputs in
     fuzz/corpus/NAME/;
  3. every Benchmark{"NAME", ...} in bench/ is given to add_test(), or to a
     foreach() over such tests, in a CMakeLists.txt that registers smoke tests.
"""

import pathlib
import posixpath
import re

import source_tree


def check(root):
    calls = {posixpath.dirname(path): source_tree.cmake_calls(source_tree.read(root, path))
             for path in source_tree.files(root, "CMakeLists.txt")}
    problems = []
    for path in source_tree.files(root, "_test.cc", "_test.py"):
        if naming_folder(path, calls) is None:
            problems.append(f"{path}:1: no CMakeLists.txt names this test")
    return problems + check_fuzzers(root, calls) + check_benchmarks(root, calls)


def check_fuzzers(root, calls):
    problems = []
    paths = source_tree.files(root)
    for path in (p for p in paths if posixpath.dirname(p) == "fuzz" and p.endswith(".cc")):
        if naming_folder(path, calls, "yonder_fuzzer") is None:
            problems.append(f"{path}:1: fuzz/CMakeLists.txt does not give this file to yonder_fuzzer()")
        corpus = f"fuzz/corpus/{posixpath.basename(path)[:-len('.cc')]}/"
        if not any(p.startswith(corpus) for p in paths):
            problems.append(f"{path}:1: no inputs are kept in {corpus}")
    return problems


def check_benchmarks(root, calls):
    smoked = set()
    for commands in calls.values():
        if any("smoke" in call.arguments for call in commands):
            smoked.update(*(call.arguments for call in commands if call.name in ("add_test", "foreach")))
    problems = []
    for path in source_tree.files(root, ".cc"):
        names = re.findall(r'\bBenchmark\{"([^"]+)"', source_tree.read(root, path)) if path.startswith("bench/") else []
        problems += [f"{path}:1: no smoke test runs the benchmark {name}" for name in names if name not in smoked]
    return problems


def naming_folder(path, calls, command=None):
    """The folder, from the file's own upwards, whose CMakeLists.txt names it."""
    for folder in map(str, pathlib.PurePosixPath(path).parents):
        folder = "" if folder == "." else folder
        relative = posixpath.relpath(path, folder or ".")
        for call in calls.get(folder, []):
            if command in (None, call.name) and any(names(argument, relative) for argument in call.arguments):
                return folder
    return None


def names(argument, relative):
    """Whether an argument means the file: "x_test.cc" or "${...}/x_test.cc"."""
    return argument == relative or (argument.startswith("${") and argument.endswith("}/" + relative))


if __name__ == "__main__":
    source_tree.run(check)
