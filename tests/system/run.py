#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs cases of the system tests: run.py [--long] [--build DIR] [--list] [CASE...], all cases by default.

Exit status 0: passed; 1: failed; 77: skipped for a reason listed in bench.py.
A case whose function is marked with needs_namespaces runs in fresh network and mount namespaces.
"""

import argparse
import importlib
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bench import SKIP_REASONS, Bench, Failure, Skip  # noqa: E402

GROUPS = ("address", "bootstrap", "shm", "failure", "semantics", "mixed", "resources", "talk", "program",
          "run")
INSIDE = "HETCCL_TEST_INSIDE"


def find_cases():
    cases = {}
    for group in GROUPS:
        module = importlib.import_module("cases_" + group)
        for name, value in vars(module).items():
            if name.startswith("case_"):
                cases[name.removeprefix("case_").replace("_", "-")] = value
    return cases


def namespace_words():
    """How to get namespaces here: as root plainly, else with a user namespace; None: not at all."""
    for words in (["unshare", "-nm"], ["unshare", "-Urnm"]):
        try:
            if subprocess.run([*words, "true"], capture_output=True, timeout=20, check=False).returncode == 0:
                return words
        except (OSError, subprocess.SubprocessError):
            pass
    return None


def run_inside(name, options):
    words = namespace_words()
    if words is None:
        raise Skip("namespaces")
    command = [*words, sys.executable, os.path.abspath(__file__), "--build", options.build, name]
    if options.long:
        command.append("--long")
    status = subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    if status != 0:
        raise Failure("inside its namespaces, see above")


def run_case(name, function, options):
    """One case: 'passed', 'failed' or 'skipped'."""
    start = time.monotonic()
    bench = Bench(options.build, options.long)
    outcome = "passed"
    text = ""
    try:
        if getattr(function, "needs_namespaces", False) and os.environ.get(INSIDE) is None:
            run_inside(name, options)
        else:
            if os.environ.get(INSIDE) is not None:
                bench.command("ip", "link", "set", "lo", "up")
            function(bench)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        outcome, text = "failed", str(failure)
    except Skip as skip:
        outcome, text = "skipped", SKIP_REASONS[skip.args[0]]
    finally:
        bench.close()
    if os.environ.get(INSIDE) is None or outcome != "passed":
        print(f"{name}: {outcome} in {time.monotonic() - start:.1f} s{': ' if text else ''}{text}",
              flush=True)
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="the full size of every case")
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--list", action="store_true", help="print the names of all cases")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    # Meson puts the folders of all libraries that a test needs there, in any order: also the stand-in for the vendor's.
    os.environ.pop("LD_LIBRARY_PATH", None)
    cases = find_cases()
    if options.list:
        print("\n".join(cases))
        return 0
    unknown = [name for name in options.cases if name not in cases]
    if unknown:
        print(f"run.py: unknown case {unknown[0]}; --list prints them", file=sys.stderr)
        return 2
    outcomes = [run_case(name, cases[name], options) for name in options.cases or cases]
    if len(outcomes) > 1:
        print(f"{outcomes.count('passed')} passed, {outcomes.count('failed')} failed, {outcomes.count('skipped')} skipped")
    if "failed" in outcomes:
        return 1
    return 77 if "skipped" in outcomes and len(outcomes) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
