#!/usr/bin/env python3
"""Runs supervise.py with a small program in QEMU's place that plays the guest."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SUPERVISE = pathlib.Path(__file__).resolve().parent / "supervise.py"
# What every guest starts with: the three ports, and the number of this boot.
PRELUDE = """
import os, sys, time
ctl, out, err = map(int, sys.argv[1:4])
def say(text): os.write(ctl, text.encode() + b"\\n")
with open(sys.argv[4], "a+") as file:
    file.write("x")
    boots = file.tell()
"""


class SuperviseTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="yonder-supervise-")
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        self.job = self.folder / "job"
        self.job.mkdir()
        self.boots = self.folder / "boots"
        self.boots.touch()

    def command(self, guest, timeout=30, boot_timeout=30):
        return [sys.executable, "-B", SUPERVISE, "--boot-timeout", str(boot_timeout), "--timeout", str(timeout),
                "--verbose", "0", "--kernel-log", "0", "--job", self.job, "--",
                sys.executable, "-c", PRELUDE + guest,
                "@FD_ctl@", "@FD_out@", "@FD_err@", self.boots]

    def run_guest(self, guest, **limits):
        return subprocess.run(self.command(guest, **limits), capture_output=True, text=True, check=False, timeout=60)

    def boot_count(self):
        return len(self.boots.read_text(encoding="utf-8"))

    def test_passes_streams_and_status_on(self):
        result = self.run_guest("say('UP'); say('RUN'); os.write(out, b'hello'); os.write(err, b'oops')\n"
                                "say('EXIT 3 5 4'); time.sleep(60)")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (3, "hello", "oops"))
        self.assertFalse(self.job.exists())

    def test_waits_for_output_that_comes_after_the_status(self):
        result = self.run_guest("say('RUN'); say('EXIT 0 4 3'); os.write(out, b'la'); time.sleep(0.3)\n"
                                "os.write(out, b'te'); os.write(err, b'abc'); time.sleep(60)")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "late", "abc"))

    def test_ends_a_command_that_runs_too_long(self):
        result = self.run_guest("say('RUN'); os.write(out, b'begun'); time.sleep(60)", timeout=1)
        self.assertEqual((result.returncode, result.stdout), (124, "begun"))

    def test_boots_once_more_when_the_guest_fails_early(self):
        result = self.run_guest("say('FAIL no module') if boots == 1 else (say('RUN'), say('EXIT 0 0 0'))\n"
                                "time.sleep(60)")
        self.assertEqual((result.returncode, self.boot_count()), (0, 2))
        self.assertIn("no module", result.stderr)

    def test_gives_up_after_two_boots(self):
        result = self.run_guest("time.sleep(60)", boot_timeout=1)
        self.assertEqual((result.returncode, self.boot_count()), (125, 2))

    def test_does_not_run_a_command_twice(self):
        result = self.run_guest("say('UP'); say('RUN'); sys.exit(1)")
        self.assertEqual((result.returncode, self.boot_count()), (125, 1))
        self.assertIn("QEMU ended before the command did", result.stderr)

    def test_refuses_words_it_does_not_know(self):
        result = self.run_guest("say('RUN'); say('HELLO'); time.sleep(60)")
        self.assertEqual(result.returncode, 125)
        self.assertIn("unknown word", result.stderr)

    def test_takes_qemu_along_when_it_is_told_to_stop(self):
        for number, status in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
            self.boots.write_text("", encoding="utf-8")
            self.job.mkdir(exist_ok=True)
            pid_file = self.folder / "pid"
            guest = f"open({str(pid_file)!r}, 'w').write(str(os.getpid())); say('RUN'); os.write(out, b'x'); time.sleep(60)"
            process = subprocess.Popen(self.command(guest), stdout=subprocess.PIPE)
            process.stdout.read(1)
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=20), status)
            process.stdout.close()
            self.assert_gone(int(pid_file.read_text(encoding="utf-8")))

    def assert_gone(self, pid):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            except OSError:
                return
            if state in "ZX":
                return
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        self.fail("the guest outlived its supervisor")


if __name__ == "__main__":
    unittest.main()
