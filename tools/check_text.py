#!/usr/bin/env python3
"""Checks the text of the repository: what may not stand in a file, and what must.

  1. no path of somebody's machine, no host of a package registry;
  2. no note about work left undone: it belongs in an issue;
  3. no file of code or documentation over MAX_LINES lines;
  4. every header starts with #pragma once and a comment that says what it is;
  5. every folder of yonder/ has its page in docs/;
  6. every relative link in a Markdown file leads somewhere, anchors included;
  7. every decision record has a number of its own and a row in docs/adr/README.md.
"""

import pathlib
import posixpath
import re

import source_tree

MAX_LINES = 600
COUNTED = (".h", ".cc", ".inc", ".py", ".cmake", ".md", ".sh", "CMakeLists.txt", "Makefile")
# Inputs of fuzzers and tests are bytes, not text of ours.
DATA = ("fuzz/corpus/",)

# Written so that this file does not match itself.
FORBIDDEN = [
    (re.compile(r"(?<![\w.}-])/(?:root|home|work|Users)/"), "a path of one machine"),
    (re.compile(r"\b(?:deb|security)\.debian\.org|\bpypi\.org|\bnpmjs\.(?:org|com)|\bdocker\.io|\b(?:ghcr|gcr|quay)\.io"
                r"|\.pkg\.dev\b|\bartifactory\b"), "the host of a package registry"),
    (re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b"), "a note about work left undone"),
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|(?:src|srcset|href)=\"([^\"]+)\"")


def check(root):
    problems = []
    for path in source_tree.files(root):
        text = None if path.startswith(DATA) else source_tree.read(root, path)
        if text is None:
            continue
        problems += check_words(path, text)
        if path.endswith(COUNTED) and text.count("\n") > MAX_LINES:
            problems.append(f"{path}:{MAX_LINES}: longer than {MAX_LINES} lines; split it")
        if path.endswith(".h"):
            problems += check_header(path, text)
        if path.endswith(".md"):
            problems += check_links(root, path, text)
    return problems + check_pages(root) + check_records(root)


def check_words(path, text):
    return [f"{path}:{number}: {what}: {match.group(0)}"
            for number, line in enumerate(text.splitlines(), 1)
            for pattern, what in FORBIDDEN
            for match in pattern.finditer(line)]


def check_header(path, text):
    lines = [line for line in text.splitlines() if line.strip()]
    problems = []
    if not lines or lines[0] != "#pragma once":
        problems.append(f"{path}:1: a header starts with #pragma once")
    if len(lines) < 2 or not lines[1].startswith("//"):
        problems.append(f"{path}:2: after #pragma once comes a comment that says what the header is")
    return problems


def check_pages(root):
    folders = {p.split("/")[1] for p in source_tree.files(root, ".h") if p.startswith("yonder/") and p.count("/") > 1}
    return [f"docs/{folder}.md:1: the page of yonder/{folder} is missing"
            for folder in sorted(folders - {"testing"})
            if not (pathlib.Path(root) / "docs" / f"{folder}.md").is_file()]


def check_records(root):
    records = [p[len("docs/adr/"):] for p in source_tree.files(root, ".md") if re.match(r"docs/adr/\d", p)]
    index = source_tree.read(root, "docs/adr/README.md") if records else ""
    numbers = [record.split("-")[0] for record in records]
    return ([f"docs/adr/{record}:1: no row in docs/adr/README.md" for record in records if f"({record})" not in index] +
            [f"docs/adr/{record}:1: another record has this number" for record, number in zip(records, numbers)
             if numbers.count(number) > 1])


def check_links(root, path, text):
    problems = []
    for number, line in enumerate(without_code(text).splitlines(), 1):
        for match in LINK.finditer(line):
            target = match.group(1) or match.group(2)
            if re.match(r"[a-z]+:", target):
                continue  # The web is not ours to check, and tests run without it.
            problem = broken(root, path, target)
            if problem:
                problems.append(f"{path}:{number}: the link {target} {problem}")
    return problems


def broken(root, path, target):
    """What is wrong with a relative link in `path`; None if nothing is."""
    name, _, anchor = target.partition("#")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
    full = pathlib.Path(root) / file
    if file.startswith("..") or not full.exists():
        return "leads nowhere"
    if anchor and file.endswith(".md") and anchor not in anchors(full.read_text(encoding="utf-8")):
        return "names no heading of that page"
    return None


def without_code(text):
    """The text with code blanked out: what looks like a link there is none."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """The anchors that a Markdown page's headings make, as forges build them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+\s+(.*?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    source_tree.run(check)
