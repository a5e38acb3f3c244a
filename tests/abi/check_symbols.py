#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare what a library exports and needs with the table.

Usage: check_symbols.py SYMBOLS_TXT nccl|rccl LIBRARY [--sanitized]
"""

import re
import subprocess
import sys

SONAMES = {"nccl": "libnccl.so.2", "rccl": "librccl.so.1"}
# ld-linux holds the function that finds thread-local variables.
MAY_NEED = ("libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
SANITIZERS = ("libasan.so", "libubsan.so", "libtsan.so", "libgcc_s.so")
# The linker's and the sanitizers' own.
NOT_OURS = ("_ITM_", "__gmon_start__", "__asan", "__ubsan", "__tsan", "__sanitizer")


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def expected_of(table, library):
    names = set()
    for line in open(table, encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            continue
        owner, _, name = line.split()
        if owner == "rccl" and library != "rccl":
            continue
        names.add(name)
        if name.startswith(("nccl", "msccl")):
            names.add("p" + name)
    return names


def exported_by(path):
    """Name -> nm's letter."""
    exported = {}
    for line in output_of("nm", "-D", "--defined-only", path).splitlines():
        _, letter, name = line.split()
        exported[name] = letter
    return exported


def check_exports(expected, exported):
    problems = [f"doesn't export {name}" for name in sorted(expected - exported.keys())]
    for name, letter in sorted(exported.items()):
        if name not in expected:
            problems.append(f"exports {name}, which isn't in the table")
        elif "p" + name in expected and letter != "W":
            problems.append(f"exports {name} as {letter}: an interposer's definition must win, so it has to be weak")
        elif "p" + name not in expected and letter != "T":
            problems.append(f"exports {name} as {letter}, not as a function")
    return problems


def check_versions(exported):
    return [f"exports {name} with a version: callers ask for none" for name in exported if "@" in name]


def check_dynamic(path, library, is_sanitized):
    text = output_of("readelf", "-dW", path)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    problems = [f"needs {name}" for name in needed
                if name not in MAY_NEED and not (is_sanitized and name.startswith(SANITIZERS))]
    if re.findall(r"\(SONAME\).*\[(.*)\]", text) != [SONAMES[library]]:
        problems.append(f"isn't called {SONAMES[library]}")
    problems += [f"has a {kind}" for kind in ("RPATH", "RUNPATH", "TEXTREL") if f"({kind})" in text]
    if "NODELETE" not in text:
        problems.append("may be unloaded under its threads")
    return problems


def check_undefined(path):
    """What the C library doesn't define nobody will."""
    problems = []
    for line in output_of("nm", "-D", "--undefined-only", path).splitlines():
        name = line.split()[-1]
        if "@GLIBC" not in name and not name.startswith(NOT_OURS):
            problems.append(f"leaves {name} undefined")
    return problems


def main():
    table, library, path = sys.argv[1:4]
    is_sanitized = "--sanitized" in sys.argv
    expected, exported = expected_of(table, library), exported_by(path)
    problems = check_exports(expected, exported) + check_versions(exported)
    problems += check_dynamic(path, library, is_sanitized)
    if not is_sanitized:
        problems += check_undefined(path)
    for problem in problems:
        print(f"{path} {problem}")
    print(f"{len(exported)} symbols, {len(problems)} problems")
    return 1 if problems or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
