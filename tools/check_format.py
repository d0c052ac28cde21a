#!/usr/bin/env python3
"""Checks that clang-format would change no C++ file; `make format` mends them."""

import re
import shutil
import subprocess

import source_tree

PROGRAM = "clang-format-19"
# Enough for one command line, and few enough to keep one process short.
BATCH = 100


def check(root, program=PROGRAM):
    if shutil.which(program) is None:
        return [f"{program} is not installed: run tools/install-packages test"]
    paths = source_tree.files(root, ".h", ".cc")
    problems = []
    for start in range(0, len(paths), BATCH):
        result = subprocess.run([program, "--dry-run", "-Werror", *paths[start:start + BATCH]], cwd=root,
                                capture_output=True, text=True, check=False)
        found = re.findall(r"^(\S+?:\d+):\d+: error: code should be clang-formatted", result.stderr, re.MULTILINE)
        problems += [f"{place}: not formatted (make format)" for place in found]
        if result.returncode != 0 and not found:
            problems.append(f"{program} failed: {result.stderr.strip()}")
    return problems


if __name__ == "__main__":
    source_tree.run(check)
