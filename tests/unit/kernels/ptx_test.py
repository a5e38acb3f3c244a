#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the PTX of the GPU kernels.

Usage: ptx_test.py text PTX                     what it may and may not contain
       ptx_test.py assemble PTX PTXAS [ARCH ..]  ptxas takes it, without spills, for the ARCHs it knows (all it knows,
                                                from sm_70 on, if none is named)
"""

import pathlib
import re
import subprocess
import sys
import tempfile

TYPES = ("int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 float8_e4m3 float8_e5m2 "
         "float8_e4m3_fnuz float8_e5m2_fnuz").split()
ENTRIES = {f"hetccl_reduce_{name}" for name in TYPES} | {"hetccl_average_widen", "hetccl_average_narrow", "hetccl_copy",
                                                    "hetccl_bridge"}

# what no line may match -> why
FORBIDDEN = {
    r"\b(fma|mad)(\.\w+)*\.f(32|64)\b": "a fused multiply-add rounds once where the host rounds twice",
    r"\.ftz\b": "flushes denormals",
    r"\b(add|sub|mul)\.f(32|64)\b": "without .rn ptxas may fuse it",
    r"\b(rcp|div|sqrt|ex2|lg2|sin|cos)(\.\w+)*\.approx": "approximates",
    r"\.extern\b": "needs something from outside",
}

# the same for the kernels that only compute; the bridge kernel waits, and calls the reductions
FORBIDDEN_TO_COMPUTE = {
    r"\bcall\b": "calls a function",
    r"\.local\b|__local_depot": "keeps something in local memory",
    r"\b(atom|red|bar|barrier|shfl|vote|match)\.": "makes threads depend on each other",
}
BRIDGE = r"hetccl_bridge|block_reduce_\w+"


def rules_by_line(text):
    """(number, line, rules that hold there)"""
    rules = FORBIDDEN
    for number, line in enumerate(text.splitlines(), 1):
        begin = re.match(r"(?:\.visible )?\.(?:entry|func)\s+(\w+)", line)
        if begin:
            rules = FORBIDDEN if re.fullmatch(BRIDGE, begin.group(1)) else FORBIDDEN | FORBIDDEN_TO_COMPUTE
        yield number, line, rules


def check_text(text):
    problems = [f"line {number}: {why}: {line.strip()}" for number, line, rules in rules_by_line(text)
                for pattern, why in rules.items() if re.search(pattern, line)]
    for header in (".version 6.3", ".target sm_70", ".address_size 64"):
        if not re.search(rf"^{re.escape(header)}$", text, re.MULTILINE):
            problems.append(f"no line {header}")
    entries = set(re.findall(r"^\.visible \.entry (\w+)\(", text, re.MULTILINE))
    problems += [f"kernel {name} is missing" for name in sorted(ENTRIES - entries)]
    problems += [f"kernel {name} is not known to this test" for name in sorted(entries - ENTRIES)]
    if len(re.findall(r"\badd\.rn\.f(32|64)\b", text)) < 100 or "ld.global.v4" not in text:
        problems.append("no additions or no vector loads: this is not what it should be")
    return problems


def known_archs(ptxas):
    """The GPUs that this ptxas makes code for."""
    text = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout
    return sorted({int(number) for number in re.findall(r"'sm_(\d+)'", text) if int(number) >= 70})


def assemble(ptxas, path, arch):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([ptxas, "-v", f"-arch=sm_{arch}", str(path), "-o", f"{folder}/out"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    problems = [] if done.returncode == 0 else [f"sm_{arch}: {done.stdout[-2000:]}"]
    stacks = re.findall(r"Function properties for (\w+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores", done.stdout)
    problems += [f"sm_{arch}: {name} has a stack of {stack} and spills of {spill} bytes" for name, stack, spill in stacks
                 if (stack, spill) != ("0", "0") and not re.fullmatch(BRIDGE, name)]
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", done.stdout)]
    if len(registers) != len(ENTRIES):
        problems.append(f"sm_{arch}: {len(registers)} kernels, not {len(ENTRIES)}")
    print(f"sm_{arch}: at most {max(registers, default=0)} registers")
    return problems


def check_assembly(ptxas, path, wanted):
    known = known_archs(ptxas)
    archs = [arch for arch in known if not wanted or f"sm_{arch}" in wanted]
    print(f"{ptxas} knows {' '.join(f'sm_{arch}' for arch in known)}")
    if not archs:
        return ["it knows none of those to check"]
    return [problem for arch in archs for problem in assemble(ptxas, path, arch)]


def main():
    what, path, *more = sys.argv[1:]
    if what == "text":
        problems = check_text(pathlib.Path(path).read_text(encoding="utf-8"))
    else:
        problems = check_assembly(more[0], path, more[1:])
    for problem in problems[:40]:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
