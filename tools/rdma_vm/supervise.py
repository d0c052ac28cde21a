#!/usr/bin/env python3
"""Runs QEMU for rdma-vm: copies the guest's streams, enforces the limits, and
ends with the status of the guest's command.

The guest has three virtio ports, each a socket pair here. On "ctl" it says, one
line each:
    UP                  its kernel modules are loaded
    RUN                 the command starts now
    EXIT status O E     the command ended after O bytes of output and E of errors
    FAIL text           the guest cannot go on
"out" and "err" carry the command's streams as they are. The byte counts tell
when all of them has arrived; QEMU is then killed, which is faster than a
shutdown and safe because every file system of the guest is ours or in memory.
"""

import argparse
import ctypes
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time

STATUS_TIMEOUT = 124
STATUS_BROKEN = 125
PORTS = ("ctl", "out", "err")
# How long output may still take to arrive after EXIT.
DRAIN_SECONDS = 20
PR_SET_PDEATHSIG = 1
COMPLAINTS = re.compile(r"WARNING: CPU|BUG: |Oops|refcount_t|Kernel panic|Out of memory: Killed")


class Broken(Exception):
    """The guest, not the command, failed."""


class Interrupted(Exception):
    """A signal told us to stop."""


def say(text):
    print(f"rdma-vm: {text}", file=sys.stderr, flush=True)


def read_lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\r\n") for line in file]
    except OSError:
        return []


def die_with_parent():
    """In the child: no QEMU outlives a supervisor that was killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guest:
    """One boot of the guest."""

    def __init__(self, options):
        self.options = options
        self.console = os.path.join(options.job, "console")
        self.messages = os.path.join(options.job, "qemu")
        self.started_at = time.monotonic()
        self.up_at = None
        self.run_at = None
        self.ended_at = None
        self.exit = None
        self.received = {"out": 0, "err": 0}
        self.control = b""
        self.start()

    def start(self):
        pairs = {port: socket.socketpair() for port in PORTS}
        descriptors = {port: theirs.fileno() for port, (_, theirs) in pairs.items()}
        command = [re.sub(r"@FD_(\w+)@", lambda m: str(descriptors[m.group(1)]), word) for word in self.options.command]
        with open(self.messages, "wb") as messages:
            # A session of its own: ^C is for the supervisor to handle.
            self.qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages,
                                         pass_fds=descriptors.values(), start_new_session=True,
                                         preexec_fn=die_with_parent)
        self.selector = selectors.DefaultSelector()
        for port, (ours, theirs) in pairs.items():
            theirs.close()
            self.selector.register(ours, selectors.EVENT_READ, port)

    def stop(self):
        self.qemu.kill()
        self.qemu.wait()
        self.selector.close()

    def run(self):
        """The command's status. Raises Broken when the guest fails first."""
        while not self.is_complete():
            self.check_limits()
            for key, _ in self.selector.select(timeout=0.5):
                self.receive(key.data, key.fileobj)
            if not self.selector.get_map() or self.qemu.poll() is not None and not self.is_complete():
                raise Broken("QEMU ended before the command did")
        return self.exit[0]

    def is_complete(self):
        if self.exit is None:
            return False
        _, out_bytes, err_bytes = self.exit
        return self.received["out"] >= out_bytes and self.received["err"] >= err_bytes

    def check_limits(self):
        now, limits = time.monotonic(), self.options
        if self.run_at is None:
            if now - self.started_at > limits.boot_timeout:
                raise Broken(f"the guest did not start the command within {limits.boot_timeout} s")
        elif self.exit is not None:
            if now - self.ended_at > DRAIN_SECONDS:
                raise Broken("output of the command was lost")
        elif limits.timeout and now - self.run_at > limits.timeout:
            say(f"the command ran past {limits.timeout} s")
            self.exit = (STATUS_TIMEOUT, 0, 0)

    def receive(self, port, stream):
        try:
            data = stream.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.selector.unregister(stream)
        elif port == "ctl":
            self.obey(data)
        else:
            self.received[port] += len(data)
            write_all(1 if port == "out" else 2, data)

    def obey(self, data):
        *lines, self.control = (self.control + data).split(b"\n")
        for line in lines:
            word, *rest = line.decode(errors="replace").split(" ")
            if word == "UP":
                self.up_at = time.monotonic()
            elif word == "RUN":
                self.run_at = time.monotonic()
            elif word == "EXIT" and len(rest) == 3:
                self.ended_at = time.monotonic()
                self.exit = tuple(map(int, rest))
            else:
                raise Broken("in the guest: " + " ".join(rest) if word == "FAIL" else f"unknown word from the guest: {word}")

    def report_times(self, status):
        end = time.monotonic()
        run = self.run_at or end
        up = self.up_at or run
        say(f"boot {up - self.started_at:.1f} s, setup {run - up:.1f} s, command {end - run:.1f} s, status {status}")

    def report_kernel(self):
        lines = read_lines(self.console)
        if self.options.kernel_log:
            print(*(f"kernel: {line}" for line in lines), sep="\n", file=sys.stderr)
        else:
            for line in [line for line in lines if COMPLAINTS.search(line)][:5]:
                say(f"the guest's kernel complained (see --kernel-log): {line}")

    def report_end(self):
        for name, path in (("QEMU's messages", self.messages), ("the guest's console", self.console)):
            if lines := read_lines(path)[-40:]:
                say(f"the end of {name}:")
                print(*(f"  | {line}" for line in lines), sep="\n", file=sys.stderr)


def write_all(descriptor, data):
    while data:
        try:
            data = data[os.write(descriptor, data):]
        except BlockingIOError:
            time.sleep(0.02)  # Whoever gave us the descriptor made it non-blocking.


def supervise(options):
    """The status to exit with. A guest that breaks before the command starts gets a second boot."""
    for is_last in (False, True):
        guest = Guest(options)
        try:
            status = guest.run()
            break
        except Broken as broken:
            say(str(broken))
            status = STATUS_BROKEN
        finally:
            guest.stop()
        if is_last or guest.run_at is not None:
            guest.report_end()
            break
        say("trying once more")
    if options.verbose:
        guest.report_times(status)
    guest.report_kernel()
    return status


def interrupt(number, _frame):
    raise Interrupted(number)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--boot-timeout", type=int, required=True)
    parser.add_argument("--timeout", type=int, required=True)
    parser.add_argument("--verbose", type=int, required=True)
    parser.add_argument("--kernel-log", type=int, required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, interrupt)
    try:
        return supervise(options)
    except Interrupted as interrupted:
        return 128 + interrupted.args[0]
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    finally:
        shutil.rmtree(options.job, ignore_errors=True)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # Standard output may be a closed pipe: nothing is left to flush.
