#!/usr/bin/env python3
"""Reports what run-in-rdma-vm ran: usage: report.py MARK <STREAM

STREAM is all that came out of the guest. Between programs it has lines of ours,
which begin with MARK, a word that no program prints by chance:
    MARK begin LINE     the command line LINE starts
    MARK end STATUS     it ended; the newline before the mark is ours, too
What passed says so in one line. What failed is told at the very end, where logs
are read first and cut last: which programs and which of their tests, then their
whole output. A program that did not come to its end has failed: the guest broke,
or ran past its time. What is said outside programs is passed on as it is.

The status is 1 if a program failed.
"""

import re
import sys
import time

TEST_COUNT = re.compile(rb"^\[=+\] (\d+) tests? from .* ran\.", re.MULTILINE)
FAILED_TEST = re.compile(rb"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)$", re.MULTILINE)


def name_of(line):
    """A command line without the folders of its words."""
    return re.sub(r"[^\s=]*/", "", line)


class Program:
    def __init__(self, line):
        self.name = name_of(line)
        self.output = bytearray()
        self.started_at = time.monotonic()
        self.ending = "did not end"  # Until it does.

    def end(self, status):
        self.ending = "passed" if status == "0" else f"failed with status {status}"
        if self.output.endswith(b"\n"):
            del self.output[-1:]

    def passed(self):
        return self.ending == "passed"

    def summary(self):
        seconds = time.monotonic() - self.started_at
        counts = [int(count) for count in TEST_COUNT.findall(self.output)]
        tests = f", {sum(counts)} test{'s' * (sum(counts) != 1)}" if counts else ""
        return f"{self.name}: {self.ending} ({seconds:.1f} s{tests})"

    def failure(self):
        tests = [test.decode(errors="replace") for test in FAILED_TEST.findall(self.output)]
        return self.name + (f" ({', '.join(tests)})" if tests else "")


class Report:
    """Reads the stream line by line; write() takes bytes."""

    def __init__(self, mark, write):
        self.mark = mark.encode()
        self.write = write
        self.running = None
        self.passed_count = 0
        self.failed = []

    def read(self, line):
        mark, _, rest = line.partition(b" ")
        if mark == self.mark:
            self.obey(*rest.decode(errors="replace").rstrip("\n").split(" ", 1))
        elif self.running is not None:
            self.running.output += line
        else:
            self.write(line)

    def obey(self, word, text):
        if word == "begin":
            self.running = Program(text)
        else:
            self.running.end(text)
            self.leave()

    def leave(self):
        program, self.running = self.running, None
        self.say(program.summary())
        if program.passed():
            self.passed_count += 1
        else:
            self.failed.append(program)

    def finish(self):
        """The status."""
        if self.running is not None:
            self.leave()
        self.say(f"in the guest: {self.passed_count} passed, {len(self.failed)} failed")
        if not self.failed:
            return 0
        self.say("failed: " + ", ".join(program.failure() for program in self.failed))
        for program in self.failed:
            self.say(f"==== output of {program.name}, which {program.ending}:")
            self.write(bytes(program.output))
            if not program.output.endswith(b"\n"):
                self.say("")
        return 1

    def say(self, text):
        self.write(text.encode() + b"\n")


def write_through(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def main():
    report = Report(sys.argv[1], write_through)
    for line in sys.stdin.buffer:
        report.read(line)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
