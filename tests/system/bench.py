# SPDX-License-Identifier: Apache-2.0
"""Test bench of the system tests: starts the ranks of a job, each under a time-out, and collects what they say."""

import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

# NCCL's result codes, and those of ct.h.
SUCCESS, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR = 0, 2, 3, 4, 5, 6
WRONG = 100

# A test may be skipped for these reasons and no other.
SKIP_REASONS = {
    "namespaces": "this kernel or container allows no network and mount namespaces",
    "memory": "less than 7 GiB of memory are free, or a sanitizer takes more",
    "cuda-header": "NVIDIA's nccl.h and cuda_runtime.h are not on this machine",
}


class Failure(Exception):
    """A pass criterion doesn't hold."""


class Skip(Exception):
    """The test can't run here; the argument is a key of SKIP_REASONS."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Rank:
    """One running rank."""

    def __init__(self, bench, rank, command, env, idfile=None):
        self.rank = rank
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.started = time.monotonic()
        self.idfile = idfile
        self.ended = None
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        preexec_fn=die_with_parent)
        bench.running.append(self)

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def mark(self, name):
        """Tells the rank something: ct_is_marked()."""
        with open(f"{self.idfile}.{name}.{self.rank}", "w", encoding="ascii"):
            pass

    def has_ended(self):
        if self.process.poll() is None:
            return False
        if self.ended is None:
            self.ended = time.monotonic()
        return True

    def result(self):
        return Result(self)


class Result:
    """What a rank left: its line, its stderr, its exit status."""

    def __init__(self, rank):
        self.rank = rank.rank
        self.status = rank.process.returncode
        self.wall_s = (rank.ended or time.monotonic()) - rank.started
        self.ended = rank.ended
        rank.out.seek(0)
        rank.err.seek(0)
        self.stdout = rank.out.read().decode(errors="replace")
        self.stderr = rank.err.read().decode(errors="replace")
        self.code = None
        self.notes = {}
        words = self.stdout.splitlines()[-1].split() if self.stdout.strip() else []
        if len(words) >= 7 and words[0].isdigit():
            self.code = int(words[1])
            self.seconds = float(words[2])
            self.fds, self.threads, self.rss = int(words[3]), int(words[4]), int(words[5])
            self.crc = words[6]
            self.notes = dict(word.split("=", 1) for word in words[7:] if "=" in word)
        found = re.search(r"^ct\[\d+\]: (.*)", self.stderr, re.M | re.S)
        self.error = found.group(1).strip() if found else ""

    def number(self, name):
        check(name in self.notes, f"no {name} in the result line: {self}")
        return float(self.notes[name])

    def __str__(self):
        how = f"code {self.code}" if self.code is not None else f"exit status {self.status}"
        return f"rank {self.rank}: {how} after {self.wall_s:.1f} s: {self.error or self.stderr[-400:] or self.stdout[-200:]}"


class Bench:
    def __init__(self, build, is_long):
        self.build = os.path.abspath(build)
        self.source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self.is_long = is_long
        self.ct = os.path.join(self.build, "tests/system/ct")
        self.hetccl = os.path.join(self.build, "tools/hetccl/hetccl")
        self.running = []
        self.tmp = tempfile.mkdtemp(prefix="hetccl-test-")
        self.jobs = 0
        self.helpers = []
        self.sanitizer = self.find_sanitizer()
        # How much slower everything may be.
        self.slowness = {"none": 1, "thread": 8}.get(self.sanitizer, 4)

    def find_sanitizer(self):
        """What the build folder was configured with: none, thread, address,undefined ..."""
        with open(os.path.join(self.build, "meson-info/intro-buildoptions.json"), encoding="utf-8") as file:
            return next((option["value"] for option in json.load(file) if option["name"] == "b_sanitize"), "none")

    def seconds(self, limit):
        """A time limit of a case, with what a sanitizer costs."""
        return limit * self.slowness

    def check_bytes(self, n_bytes, limit, text):
        """A memory limit of a case; sanitizers keep books of their own, so that it says nothing there."""
        check(self.sanitizer != "none" or n_bytes < limit, f"{text}: {n_bytes:.0f} bytes, limit {limit}")

    def close(self):
        self.kill_all()
        for helper in self.helpers:
            helper.kill()
            helper.wait()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def say(self, text):
        print("  " + text, flush=True)

    def scaled(self, normal, full):
        return full if self.is_long else normal

    # --- ranks ---

    def environment(self, extra=None, path=None):
        """The caller's environment without settings of the library, plus the device and what the test wants."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HETCCL_", "NCCL_", "RCCL_"))}
        env["HETCCL_DEVICE"] = "host"
        for name, more in (("ASAN_OPTIONS", "verify_asan_link_order=0"), ("TSAN_OPTIONS", "die_after_fork=0")):
            env[name] = ":".join(filter(None, (env.get(name), more)))
        env.update(extra or {})
        return {k: v for k, v in env.items() if v is not None}

    def new_idfile(self):
        self.jobs += 1
        return os.path.join(self.tmp, f"id{self.jobs}")

    def start(self, rank, size, op, idfile, env=None, prefix=(), **options):
        """Starts one rank. options are ct's, with _ for -."""
        command = [*prefix, self.ct, "--rank", str(rank), "--size", str(size), "--op", op]
        if idfile is not None:
            command += ["--idfile", idfile]
        for name, value in options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        return Rank(self, rank, command, self.environment(env), idfile)

    def start_job(self, size, op, env=None, envs=None, prefixes=None, idfile="new", skip_ranks=(), **options):
        """Starts the ranks of a job. envs and prefixes: by rank, on top of env."""
        if idfile == "new":
            idfile = self.new_idfile()
        ranks = []
        for rank in range(size):
            if rank in skip_ranks:
                continue
            own = dict(env or {})
            own.update(envs[rank] if envs else {})
            ranks.append(self.start(rank, size, op, idfile, own, prefixes[rank] if prefixes else (), **options))
        return ranks

    def wait(self, ranks, timeout):
        """Waits for all; whoever is not through in time is killed and is a failure."""
        deadline = time.monotonic() + self.seconds(timeout)
        while not all([rank.has_ended() for rank in ranks]):
            if time.monotonic() > deadline:
                late = [rank.rank for rank in ranks if not rank.has_ended()]
                stacks = self.stacks(ranks)
                for rank in ranks:
                    rank.signal(signal.SIGKILL)
                    rank.process.wait()
                    rank.has_ended()
                raise Failure(f"hang: ranks {late} not through after {self.seconds(timeout)} s\n" + stacks +
                              "\n".join(str(rank.result()) for rank in ranks))
            time.sleep(0.01)
        self.running = [rank for rank in self.running if rank not in ranks]
        return [rank.result() for rank in ranks]

    def wait_for_mark(self, ranks, name, timeout=30):
        """Until all of them have got as far as ct_mark(name), or one has ended."""
        deadline = time.monotonic() + self.seconds(timeout)
        while not all(os.path.exists(f"{rank.idfile}.{name}.{rank.rank}") for rank in ranks):
            ended = [str(rank.result()) for rank in ranks if rank.has_ended()]
            check(not ended, f"ended before {name}: {ended}")
            check(time.monotonic() < deadline, f"not as far as {name} after {self.seconds(timeout)} s")
            time.sleep(0.01)

    def stacks(self, ranks):
        """Where the late ranks are, in a file, if HETCCL_TEST_STACKS names one and gdb is here."""
        path = os.environ.get("HETCCL_TEST_STACKS")
        if path is None or shutil.which("gdb") is None:
            return ""
        with open(path, "w", encoding="utf-8") as file:
            for rank in ranks:
                if not rank.has_ended():
                    file.write(f"--- rank {rank.rank}\n")
                    file.flush()
                    with contextlib.suppress(subprocess.SubprocessError):
                        subprocess.run(["gdb", "-p", str(rank.pid), "-batch", "-ex", "thread apply all bt 14"], stdout=file,
                                       stderr=subprocess.DEVNULL, timeout=30, check=False)
        return f"stacks are in {path}\n"

    def job(self, size, op, timeout=60, expect=SUCCESS, **options):
        """Runs a job to its end and checks every rank's result code (None: don't)."""
        results = self.wait(self.start_job(size, op, **options), timeout)
        for result in results:
            self.check_sane(result)
            if expect is not None:
                check(result.code == expect, f"expected code {expect}: {result}")
        return results

    def check_sane(self, result):
        check(result.status is not None and result.status >= 0, f"ended by a signal: {result}")
        check(result.code is not None, f"no result line: {result}")

    def kill_all(self):
        for rank in self.running:
            rank.signal(signal.SIGCONT)
            rank.signal(signal.SIGKILL)
            rank.process.wait()
        self.running = []

    # --- talk (A33) ---

    def check_talk(self, result):
        """stdout has our line alone, stderr the error alone, and that says what it has to."""
        check(len(result.stdout.splitlines()) == 1, f"noise on stdout: {result.stdout!r}")
        noise = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith("ct[")]
        check(not noise or result.error.endswith("\n".join(noise)), f"noise on stderr: {noise}")
        if result.code == SUCCESS:
            return
        text = result.error
        check(len(text) > 30, f"an empty error: {text!r}")
        check(not re.search(r"unhandled|system error\W*$", text, re.I), f"an error that says nothing: {text!r}")
        check(re.search(r"rank|/|=|port|host|interface", text), f"neither rank nor path nor setting: {text!r}")

    # --- the machine ---

    def command(self, *words, timeout=60, env=None, status=0):
        done = subprocess.run(words, capture_output=True, text=True, timeout=self.seconds(timeout), env=env, check=False)
        check(status is None or done.returncode == status,
              f"{' '.join(words[-12:])} gave {done.returncode}: {done.stdout[-500:]} {done.stderr[-1500:]}")
        return done

    def run_hetccl(self, *words, timeout=120, status=0, env=None):
        return self.command(self.hetccl, *words, timeout=timeout, status=status, env=self.environment(env))


def listeners_of(pid):
    """(address in hex, port) of every TCP listener of a process."""
    inodes = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
                if found:
                    inodes.add(found.group(1))
    found = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/net/{name}", encoding="ascii") as table:
                for line in table.readlines()[1:]:
                    words = line.split()
                    if words[3] == "0A" and words[9] in inodes:
                        address, port = words[1].split(":")
                        found.add((address, int(port, 16)))
    return found


def listener_address(entry):
    """A listener as something to connect to."""
    address, port = entry
    raw = b"".join(struct.pack("=I", int(address[i:i + 8], 16)) for i in range(0, len(address), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), port


def rss_of(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def shm_names():
    return set(os.listdir("/dev/shm"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_range(n):
    """"first-last" of n ports below the kernel's own, which nobody has now; another test may run beside this one."""
    while True:
        first = random.randrange(20000, 30000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + n):
                stack.enter_context(socket.socket()).bind(("", port))
            return f"{first}-{first + n - 1}"


class NetNamespace:
    """A second network namespace, seen from the one that the test runs in."""

    def __init__(self, bench, *flags):
        self.holder = subprocess.Popen(["unshare", "-n", *flags, "sleep", "600"], preexec_fn=die_with_parent)
        bench.helpers.append(self.holder)
        self.bench = bench
        self.flags = flags
        mine = os.readlink("/proc/self/ns/net")
        for _ in range(200):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{self.holder.pid}/ns/net") != mine:
                    break
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    @property
    def prefix(self):
        return ["nsenter", "-t", str(self.holder.pid), "-n", *self.flags]

    def run(self, *words):
        return self.bench.command(*self.prefix, *words)

    def take(self, interface, new_name, *addresses):
        """Takes an interface of ours and gives it a name and addresses there."""
        self.bench.command("ip", "link", "set", interface, "netns", str(self.holder.pid))
        self.run("ip", "link", "set", interface, "name", new_name)
        for address in addresses:
            self.run("ip", "addr", "add", address, "dev", new_name)
        self.run("ip", "link", "set", new_name, "up")

    def wait_for_carrier(self, interface):
        """The kernel tells of a carrier up to a second late."""
        for _ in range(300):
            if "state UP" in self.run("ip", "link", "show", interface).stdout:
                return
            time.sleep(0.01)
        raise Failure(f"{interface} doesn't come up")

    def packets(self, interface):
        """Packets received and sent."""
        with open(f"/proc/{self.holder.pid}/net/dev", encoding="ascii") as table:
            for line in table:
                name, _, rest = line.partition(":")
                if name.strip() == interface:
                    words = rest.split()
                    return int(words[1]), int(words[9])
        raise Failure(f"no interface {interface}")
