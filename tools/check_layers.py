#!/usr/bin/env python3
"""Checks that the code leans only on lower layers, and only on what it declares.

Rules, for every folder of yonder/ that calls yonder_library():
  1. the folder stands in LAYERS below;
  2. USES names only folders of lower layers (never a sibling on the same line);
  3. every #include "yonder/..." is of the folder itself or of one in USES; a
     test may also include what TEST_USES (or LIBS of its yonder_test) names, and
     the folders in TEST_FOLDERS;
  4. every folder in USES is included by some file, so the list stays exact;
  5. our headers are included by their full path, in quotes, and exist.
And everywhere: internal/ headers are included only from inside their folder.
"""

import re

import source_tree

# Bottom up. Folders on one line are siblings and do not know each other.
LAYERS = [
    ["base"],
    ["os", "sync"],
    ["telemetry", "offload"],
    ["fabric"],
    ["fabric/shm", "fabric/tcp", "fabric/verbs", "fabric/sim"],
    ["fabric/open"],
    ["rpc"],
    ["remote"],
    ["node"],
    ["client"],
    ["cluster"],
    ["heap", "segment"],
    ["structures", "cache"],
]
RANK = {folder: rank for rank, line in enumerate(LAYERS) for folder in line}

# Folders that only tests may use, with the highest folder each may use itself.
# They are not installed, so they have no yonder_library().
TEST_FOLDERS = {
    "testing": "base",
    "fabric/conformance": "fabric",
    "fabric/testbed": "fabric/sim",
    "rpc/suite": "rpc",
    "remote/suite": "remote",
    "client/suite": "client",
    "segment/suite": "segment",
    "structures/suite": "structures",
    "structures/suite_shuffle": "structures",
}

LIBRARY_KEYWORDS = {"SOURCES", "HEADERS", "PRIVATE_HEADERS", "USES", "LIBS", "PRIVATE_LIBS", "TESTS", "TEST_USES"}
TEST_KEYWORDS = {"LABEL", "TIMEOUT", "LIBS", "ARGS"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<(yonder/[^>\n]+)>)', re.MULTILINE)


class Library:
    """What a folder's CMakeLists.txt declares, with folders for target names."""

    def __init__(self, folder, cmake, line):
        self.folder = folder
        self.cmake = cmake
        self.line = line
        self.uses = []
        self.test_uses = []
        self.included = set()


def check(root):
    problems = []
    libraries = read_libraries(root, problems)
    for library in libraries.values():
        check_uses(library, problems)
    for path in source_tree.files(root, ".h", ".cc", ".inc"):
        check_includes(root, path, libraries, problems)
    for library in libraries.values():
        for used in library.uses:
            if used not in library.included:
                problems.append(f"{library.cmake}:{library.line}: USES {used}, but no file includes it")
    return problems


def read_libraries(root, problems):
    """Folder below yonder/ -> Library."""
    calls = {}
    for path in source_tree.files(root, "CMakeLists.txt"):
        if path.startswith("yonder/"):
            calls[path] = source_tree.cmake_calls(source_tree.read(root, path))
    libraries, by_name = {}, {}
    for path, commands in calls.items():
        folder = path[len("yonder/"):-len("/CMakeLists.txt")]
        for call in (c for c in commands if c.name == "yonder_library"):
            if folder in libraries or call.arguments[0] != folder.replace("/", "_"):
                problems.append(f"{path}:{call.line}: a folder has one library, named after it")
                continue
            libraries[folder] = by_name[call.arguments[0]] = Library(folder, path, call.line)
    for path, commands in calls.items():
        library = libraries.get(path[len("yonder/"):-len("/CMakeLists.txt")])
        if library:
            read_declarations(library, commands, by_name, problems)
    return libraries


def read_declarations(library, commands, by_name, problems):
    def folders(names, line):
        for name in names:
            if name in by_name:
                yield by_name[name].folder
            elif name not in (folder.replace("/", "_") for folder in TEST_FOLDERS):
                problems.append(f"{library.cmake}:{line}: {name} is no folder of yonder/")

    for call in commands:
        if call.name == "yonder_library":
            library.uses = list(folders(call.section("USES", LIBRARY_KEYWORDS), call.line))
            library.test_uses += folders(call.section("TEST_USES", LIBRARY_KEYWORDS), call.line)
        elif call.name == "yonder_test":
            ours = [n[len("yonder::"):] for n in call.section("LIBS", TEST_KEYWORDS) if n.startswith("yonder::")]
            library.test_uses += folders(ours, call.line)


def check_uses(library, problems):
    if library.folder not in RANK:
        problems.append(f"{library.cmake}:{library.line}: {library.folder} is not in LAYERS of tools/check_layers.py")
        return
    for used in library.uses:
        if used in RANK and RANK[used] == RANK[library.folder]:
            problems.append(f"{library.cmake}:{library.line}: {library.folder} uses its sibling {used}")
        elif used in RANK and RANK[used] > RANK[library.folder]:
            problems.append(f"{library.cmake}:{library.line}: {library.folder} uses {used}, which is above it")


def folder_of(path, libraries):
    """The folder of yonder/ that owns the path: the longest that contains it."""
    parts = path.split("/")[1:-1]
    for length in range(len(parts), 0, -1):
        folder = "/".join(parts[:length])
        if folder in libraries or folder in TEST_FOLDERS:
            return folder
    return None


def check_includes(root, path, libraries, problems):
    text = source_tree.read(root, path)
    if text is None:
        return
    inside = path.startswith("yonder/")
    owner = folder_of(path, libraries) if inside else None
    if inside and owner is None:
        problems.append(f"{path}:1: no yonder_library() owns this file")
        return
    for match in INCLUDE.finditer(text):
        quoted, angled = match.groups()
        at = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        if inside and (angled or not quoted.startswith("yonder/")):
            problems.append(f'{at}: write #include "yonder/..." with the full path for {angled or quoted}')
        elif quoted and quoted.startswith("yonder/"):
            check_include(root, at, path, owner, quoted, libraries, problems)


def check_include(root, at, path, owner, included, libraries, problems):
    if "/internal/" in included and not path.startswith(included.split("internal/")[0]):
        problems.append(f"{at}: {included} is internal to another folder")
        return
    if not (source_tree.pathlib.Path(root) / included).is_file():
        problems.append(f"{at}: {included} does not exist")
        return
    if owner is None:
        return  # apps, bench, tests and fuzz may use every public header.
    target = folder_of(included, libraries)
    if target == owner:
        return
    if owner in TEST_FOLDERS:
        highest = RANK[TEST_FOLDERS[owner]]
        allowed = {*TEST_FOLDERS, *(folder for folder in libraries if RANK.get(folder, highest + 1) <= highest)}
    else:
        library = libraries[owner]
        allowed = set(library.uses)
        if path.endswith("_test.cc"):
            allowed |= {*library.test_uses, *TEST_FOLDERS}
        library.included.add(target)
    if target not in allowed:
        problems.append(f"{at}: {included} is of {target}, which {owner} may not use: it is not in "
                        f"{place_to_declare(owner, path)}")


def place_to_declare(owner, path):
    if owner in TEST_FOLDERS:
        return "TEST_FOLDERS of tools/check_layers.py"
    return "USES or TEST_USES" if path.endswith("_test.cc") else "USES"


if __name__ == "__main__":
    source_tree.run(check)
