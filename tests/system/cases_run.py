# SPDX-License-Identifier: Apache-2.0
"""`hetccl run`: this library in the place of the vendor's, in programs that know nothing of it."""

import os
import shutil
import stat
import struct
import subprocess

from bench import check

NOBODY = 65534


def program(bench):
    return os.path.join(bench.build, "tests/system/which_nccl")


def ours(bench, name="libnccl.so.2"):
    return os.path.join(bench.build, "src/api", name)


def vendors(bench):
    return os.path.join(bench.build, "tests/system/standin/libnccl.so.2")


def run(bench, *words, env=None, status=0):
    return bench.run_hetccl("run", *words, env=env, status=status)


def served_by(bench, *words, env=None):
    """The first line of a program that prints who serves it, then its other lines."""
    lines = run(bench, "--", *words, env=env).stdout.splitlines()
    return os.path.realpath(lines[0]), lines[1:]


def script(path, *lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.chmod(path, 0o755)
    return path


def variables(bench, *words, env=None):
    """What --print says, taken back by a shell."""
    text = run(bench, *words, "--print", env=env).stdout
    # Nothing is started with them: a sanitizer's library can't be preloaded into just any program.
    tell = "".join(f"\nprintf '%s=%s\\n' {name} \"${name}\"" for name in ("LD_PRELOAD", "HETCCL_NCCL_LIB", "HETCCL_RCCL_LIB"))
    shell = subprocess.run(["env", "-i", "sh", "-c", text + tell], capture_output=True, text=True, check=True, timeout=20)
    return dict(line.split("=", 1) for line in shell.stdout.splitlines())


def case_run(bench):
    """Linked with DT_RPATH, opened by name, through scripts and sh: ours serves; without `run` the vendor's does."""
    us, plain = os.path.realpath(ours(bench)), bench.command(program(bench), env=bench.environment()).stdout
    check(os.path.realpath(plain.strip()) == os.path.realpath(vendors(bench)), f"not the vendor's without run: {plain}")
    check(served_by(bench, program(bench)) == (us, []), "linked")
    check(served_by(bench, program(bench), "dlopen", "two words", "--print", "") == (us, ["dlopen", "two words", "--print", ""]),
          "opened by name, or arguments are changed")
    by_name = {"PATH": f"/nowhere::{os.path.dirname(program(bench))}:/usr/bin:/bin"}
    check(served_by(bench, "which_nccl", env=by_name)[0] == us, "found by PATH")
    direct = script(os.path.join(bench.tmp, "direct"), f"#!{program(bench)} dlopen")
    check(served_by(bench, direct, "x") == (us, ["dlopen", direct, "x"]), "a script that names the program")
    shell = script(os.path.join(bench.tmp, "shell"), "#!/usr/bin/env sh", f"exec {program(bench)} \"$@\"")
    check(served_by(bench, shell, "a b") == (us, ["a b"]), "a script of env sh")
    check(served_by(bench, script(os.path.join(bench.tmp, "again"), f"#!{shell}"))[0] == us, "a script for a script")
    done = run(bench, "sh", "-c", "exit 37", status=37)
    check(done.stdout == "" and done.stderr == "", f"noise: {done}")
    check(run(bench, bench.hetccl, "--version").stdout.startswith("hetccl "), "the command under itself")
    twice = run(bench, bench.hetccl, "run", "sh", "-c", "echo $LD_PRELOAD").stdout.strip()
    check(os.path.realpath(twice) == us, f"run under run gives LD_PRELOAD={twice}")


def make_torch(bench, *files):
    """A folder for PYTHONPATH with what looks like torch and its NCCL: (name under nvidia/nccl/lib, source)."""
    site = os.path.join(bench.tmp, f"site{len(os.listdir(bench.tmp))}")
    os.makedirs(os.path.join(site, "torch"))
    os.makedirs(os.path.join(site, "nvidia/nccl/lib"))
    with open(os.path.join(site, "torch/__init__.py"), "w", encoding="ascii") as file:
        file.write("raise ImportError('nobody may import this')\n")
    for name, source in files:
        shutil.copy(source, os.path.join(site, "nvidia/nccl/lib", name))
    return site, os.path.realpath(os.path.join(site, "nvidia/nccl/lib"))


def case_run_environment(bench):
    """LD_PRELOAD keeps what is there; the vendor's library is found beside torch, is never ours, and the user's word stands."""
    found = variables(bench, env={"LD_PRELOAD": "libm.so.6 libc.so.6", "HETCCL_NCCL_LIB": "it's/set"})
    check(found["LD_PRELOAD"] == f"{os.path.realpath(ours(bench))}:libm.so.6 libc.so.6", f"LD_PRELOAD is {found}")
    check(found["HETCCL_NCCL_LIB"] == "it's/set", f"the user's HETCCL_NCCL_LIB is now {found}")
    site, lib = make_torch(bench, ("libnccl.so.2", vendors(bench)))
    check(variables(bench, env={"PYTHONPATH": site})["HETCCL_NCCL_LIB"] == f"{lib}/libnccl.so.2", "beside torch of PATH's python")
    site, lib = make_torch(bench, ("libnccl.so.2", ours(bench)), ("libnccl.so.2.real", vendors(bench)))
    check(variables(bench, env={"PYTHONPATH": site})["HETCCL_NCCL_LIB"] == f"{lib}/libnccl.so.2.real", "the original kept as .real")
    site, lib = make_torch(bench, ("libnccl.so.2", ours(bench)))
    folders = {"PYTHONPATH": site, "LD_LIBRARY_PATH": f"{lib}:{os.path.dirname(vendors(bench))}"}
    check(variables(bench, env=folders)["HETCCL_NCCL_LIB"] == os.path.realpath(vendors(bench)), "in LD_LIBRARY_PATH, and not ours")
    # The command's own Python, not that of PATH.
    site, lib = make_torch(bench, ("libnccl.so.2", vendors(bench)))
    own = script(os.path.join(bench.tmp, "python3.99"), "#!/bin/sh", f"echo {site}/torch")
    for command in (own, script(os.path.join(bench.tmp, "torchrun"), f"#!{own}")):
        done = run(bench, "--print", command).stdout
        check(f"HETCCL_NCCL_LIB='{lib}/libnccl.so.2'" in done and f"runs {command}" in done, f"{command}: {done}")
    amd = variables(bench, "--vendor", "amd")
    check(amd["LD_PRELOAD"] == os.path.realpath(ours(bench, "librccl.so.1")), f"AMD's: {amd}")


def patched(bench, name, edit):
    """A copy of the program, changed by edit(bytearray)."""
    path = os.path.join(bench.tmp, name)
    with open(program(bench), "rb") as file:
        data = bytearray(file.read())
    edit(data)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, 0o755)
    return path


def drop_interpreter(data):
    """As a static program has it: no PT_INTERP."""
    offset, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for at in range(offset, offset + size * count, size):
        if struct.unpack_from("<I", data, at)[0] == 3:
            struct.pack_into("<I", data, at, 0)


def use_musl(data):
    at = data.index(b"/lib64/ld-linux")
    data[at:at + 28] = b"/lib/ld-musl-x86_64.so.1".ljust(28, b"\0")


def setuid_program(bench):
    """A program that changes the user; one of the system's where we may not make any."""
    if os.geteuid() == 0:
        path = patched(bench, "setuid", lambda data: None)
        os.chown(path, NOBODY, -1)
        os.chmod(path, 0o4755)
        return path
    for path in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/bin/mount"):
        if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID:
            return path
    return None


def case_run_refusals(bench):
    """What can't be run under it is refused in one line that says why, with env's exit status."""
    plain = script(os.path.join(bench.tmp, "plain"), "#!/bin/sh")
    os.chmod(plain, 0o644)
    lost = script(os.path.join(bench.tmp, "lost"), "#!/nowhere/interpreter -x")
    loop = os.path.join(bench.tmp, "loop")
    script(loop, f"#!{loop}")
    fifo = os.path.join(bench.tmp, "fifo")
    os.mkfifo(fifo)
    cases = [
        (["nonsense-command"], 127, "in no folder of PATH"), (["/no/such/file"], 127, "no file /no/such/file"), ([""], 127, "PATH"),
        ([lost], 127, "/nowhere/interpreter"), ([bench.tmp], 126, "folder"), ([fifo], 126, "no file"), ([plain], 126, "executable"),
        ([loop], 126, "script"), ([], 2, "no command"), (["--nonsense"], 2, "--nonsense"), (["--vendor", "intel", "true"], 2, "intel"),
        (["--vendor"], 2, "nvidia or amd"),
        ([patched(bench, "static", drop_interpreter)], 126, "static"), ([patched(bench, "musl", use_musl)], 126, "musl"),
        ([patched(bench, "arm", lambda data: struct.pack_into("<H", data, 18, 40))], 126, "another machine"),
        ([patched(bench, "narrow", lambda data: struct.pack_into("<B", data, 4, 1))], 126, "word size"),
    ]
    if setuid_program(bench) is not None:
        cases.append(([setuid_program(bench)], 126, "setuid"))
    for words, status, text in cases:
        done = run(bench, *words, status=status)
        check(len(done.stderr.splitlines()) == 1 and done.stderr.startswith("hetccl run: "), f"{words}: {done.stderr!r}")
        check(text in done.stderr and done.stdout == "", f"{words}: {done.stderr!r} {done.stdout!r}")
    # A library that can't be named in LD_PRELOAD: the command in a folder with a blank.
    folder = os.path.join(bench.tmp, "two words")
    for path in ("tools/hetccl", "src/api"):
        os.makedirs(os.path.join(folder, path))
    shutil.copy(bench.hetccl, os.path.join(folder, "tools/hetccl"))
    shutil.copy(ours(bench), os.path.join(folder, "src/api"))
    moved = bench.command(os.path.join(folder, "tools/hetccl/hetccl"), "run", "true", env=bench.environment(), status=1)
    check("LD_PRELOAD" in moved.stderr and "two words" in moved.stderr, moved.stderr)
