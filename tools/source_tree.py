"""What the checks of the source tree share: which files there are, what the
CMakeLists say, and how a check reports.

A check is a function from the root of a tree to a list of problems, each one
line "path:line: what is wrong". That makes it as easy to run on a small bad
tree made by a test as on the real one.
"""

import os
import pathlib
import re
import subprocess
import sys


def files(root, *suffixes):
    """Paths below root, relative and sorted, that git tracks or would track.

    Without git (a release archive) it is every file outside hidden directories
    and build/. With suffixes, only names that end with one of them.
    """
    root = pathlib.Path(root)
    paths = _git_files(root)
    if paths is None:
        paths = _walk(root)
    wanted = [p for p in paths if not suffixes or p.endswith(suffixes)]
    return sorted(p for p in wanted if (root / p).is_file())


def _git_files(root):
    if not (root / ".git").exists():
        return None
    # The tree may belong to another user (a container, a CI checkout).
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z",
               "--cached", "--others", "--exclude-standard"]
    try:
        output = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name.decode() for name in output.split(b"\0") if name]


def _walk(root):
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f != "build" and not f.startswith(".")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return found


def read(root, path):
    """The text of a file; None when it is not text."""
    try:
        return (pathlib.Path(root) / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


class Call:
    """One command of a CMakeLists.txt: its name, arguments and line."""

    def __init__(self, name, arguments, line):
        self.name = name
        self.arguments = arguments
        self.line = line

    def section(self, keyword, keywords):
        """The arguments that follow `keyword` up to the next one of `keywords`."""
        values, inside = [], False
        for argument in self.arguments:
            if argument in keywords:
                inside = argument == keyword
            elif inside:
                values.append(argument)
        return values


def cmake_calls(text):
    """The commands in the text of a CMakeLists.txt, in order."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|#[^\n]*', lambda m: m.group(1) or "", text)
    calls = []
    for match in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", text):
        inside = _until_closed(text, match.end())
        arguments = [quoted or plain for quoted, plain in re.findall(r'"((?:\\.|[^"\\])*)"|([^\s"()]+)', inside)]
        calls.append(Call(match.group(1), arguments, text.count("\n", 0, match.start()) + 1))
    return calls


def _until_closed(text, start):
    depth, at = 1, start
    while at < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start:at - 1]


def run(check):
    """main() of a check: the root is the first argument, else this repository."""
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem)
    print(f"{pathlib.Path(sys.argv[0]).name}: {len(problems)} problem(s)")
    sys.exit(1 if problems else 0)
