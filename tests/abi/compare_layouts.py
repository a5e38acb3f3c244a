#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every line that the program built with NVIDIA's header prints must be printed by ours too.

Usage: compare_layouts.py NVIDIA_PROGRAM OUR_PROGRAM
"""

import subprocess
import sys


def lines_of(program):
    return subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def main():
    theirs, ours = lines_of(sys.argv[1]), set(lines_of(sys.argv[2]))
    differences = [line for line in theirs if line not in ours]
    for line in differences:
        name = line.rsplit(" ", 1)[0]
        print(f"NVIDIA: {line}; here: {next((own for own in ours if own.rsplit(' ', 1)[0] == name), 'nothing')}")
    print(f"{len(theirs)} lines, {len(differences)} differences")
    return 1 if differences or len(theirs) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
