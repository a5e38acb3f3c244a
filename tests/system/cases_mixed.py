# SPDX-License-Identifier: Apache-2.0
"""A25-A27: machines and libraries that differ."""

import os
import re

from bench import SUCCESS, check


def check_hashes(bench, results):
    """All ranks have made the same plans."""
    hashes = [re.findall(r"plan (\S+).*?hash (\S+)", result.stderr) for result in results]
    check(hashes[0], "no plan hashes in the log: " + results[0].stderr[-600:])
    check(hashes[0] == hashes[1] == hashes[2], "plan hashes differ between ranks")
    bench.say(f"{len(hashes[0])} plans, equal on all ranks")


def case_A25(bench):
    """Local knowledge, global decision."""
    env = {"HETCCL_DEBUG": "DEBUG"}
    envs = [{}, {"HETCCL_VENDOR": "amd", "HETCCL_SPIN_US": "0"}, {"HETCCL_VENDOR": "nvidia"}]
    prefixes = [[], ["taskset", "-c", "0"], []]
    counts = "1,16,300,4096,70000" + (",1048576,16777216" if bench.is_long else ",500000")
    results = bench.job(3, "all", count=counts, env=env, envs=envs, prefixes=prefixes, timeout=bench.scaled(60, 600), root=-1)
    check_hashes(bench, results)
    # A setting that changes the wire and differs: refused by all, with words.
    for result in bench.job(3, "allreduce", envs=[{}, {"HETCCL_CHUNK_BYTES": "64K"}, {}], expect=None, timeout=20):
        check(result.code != SUCCESS, f"different chunk sizes went unnoticed: {result}")
        check("rank 1" in result.error, f"the odd rank isn't named: {result}")


def other_build(bench):
    """The library with another wire revision, built once beside the build folder's own."""
    folder = os.path.join(bench.build, "other-wire")
    library = os.path.join(folder, "src/api/libnccl.so.2")
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        bench.command("meson", "setup", folder, bench.source, "-Dwire_revision=2", "--buildtype=debug", "-Db_lundef=false",
                      f"-Db_sanitize={bench.sanitizer}", timeout=120)
    bench.command("ninja", "-C", folder, "src/api/libnccl.so.2", timeout=400,
                  env={**os.environ, "NINJA_STATUS": ""}, status=0)
    check(os.path.exists(library), "no second library was built")
    return library


def case_A26(bench):
    """Different library versions."""
    library = other_build(bench)
    for odd in range(3):
        envs = [{"LD_PRELOAD": library} if rank == odd else {} for rank in range(3)]
        results = bench.job(3, "allreduce", envs=envs, env={"HETCCL_INIT_TIMEOUT_S": "20"}, hold_ms=2000, expect=None,
                            timeout=30)  # the root has to be there still when the last one comes
        for result in results:
            check(result.code != SUCCESS, f"rank {odd} odd: succeeded: {result}")
            check(result.wall_s <= bench.seconds(10), f"rank {odd} odd: took {result.wall_s:.1f} s: {result}")
            check(re.search(r"revision", result.error), f"rank {odd} odd: no revision in {result.error!r}")
            check(re.search(r"\b1\b", result.error) and re.search(r"\b2\b", result.error),
                  f"rank {odd} odd: not both revisions in {result.error!r}")
            check("rank" in result.error, f"rank {odd} odd: no rank in {result.error!r}")
    envs = [{"LD_PRELOAD": library}] * 3
    bench.job(3, "allreduce", envs=envs)


def case_A27(bench):
    """Unequal hosts, interleaved ranks, islands of one."""
    def block(*sizes):
        return ",".join(word for i, size in enumerate(sizes) for word in [("nvidia", "amd", "cpu")[i]] * size)

    layouts = [block(3, 2), block(1, 1), block(1, 5), block(1, 1, 1), "cpu", "nvidia,amd,nvidia,amd,amd",
               "amd,nvidia,nvidia,nvidia,nvidia,nvidia"]
    for vendors in layouts:
        size = len(vendors.split(","))
        for env in ({"HETCCL_VENDOR": vendors},
                    {"HETCCL_HOST_ID": vendors} if bench.is_long else {"HETCCL_HOST_ID": vendors, "HETCCL_LINK": "tcp"}):
            results = bench.job(size, "all", count="1,7," + bench.scaled("30011", "1000003"), root=-1, inplace=2, env=env,
                                timeout=bench.scaled(60, 900))
            for result in results:
                check(float(result.notes["init"]) <= bench.seconds(10), f"init took {result.notes['init']} s")
    for vendors in (block(7, 8), ",".join(["nvidia", "amd"] * 7 + ["amd"])):
        results = bench.job(15, "all", count="1,7," + bench.scaled("5003", "1000003"), root=bench.scaled(7, -1),
                            env={"HETCCL_VENDOR": vendors}, timeout=bench.scaled(90, 3000))
        for result in results:
            check(float(result.notes["init"]) <= bench.seconds(10), f"init took {result.notes['init']} s")
