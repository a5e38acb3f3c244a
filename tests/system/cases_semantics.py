# SPDX-License-Identifier: Apache-2.0
"""A17-A24: what a call means."""

import re

from bench import SUCCESS, Skip, check

TWO_VENDORS = {"HETCCL_VENDOR": "nvidia,amd"}


def layouts(size):
    """One island; two interleaved ones; as many hosts as ranks."""
    found = [{}]
    if size > 1:
        found += [TWO_VENDORS, {"HETCCL_HOST_ID": ",".join("abcdefghij"[:size])}]
    return found


def case_A17(bench):
    """Empty messages."""
    for size in (1, 2, 3, 5):
        for env in layouts(size):
            bench.job(size, "empty", env=env, iters=100)


def case_A18(bench):
    """Everybody sends to and receives from everybody, in any order."""
    largest = bench.scaled(4, 64) << 20
    for size in range(2, 8):
        for env in layouts(size)[1 if size % 2 else 0:]:
            results = bench.job(size, "exchange", env=env, iters=bench.scaled(3, 200), limit=largest, timeout=bench.scaled(60, 3000))
            for result in results:
                bench.check_bytes(result.number("beyond"), 64 << 20, f"beyond the user's: {result}")
    # Outside a group both ranks block in their send; the deadline says so.
    for env in layouts(2)[:1] + layouts(2)[2:]:
        for result in bench.job(2, "blocked", env={"HETCCL_TIMEOUT_S": "2", **env}, expect=None, timeout=20):
            check(result.code != SUCCESS, f"two blocking sends can't end: {result}")
            check(re.search("send", result.error), f"the blocked call isn't named: {result}")


def case_A19(bench):
    """More than 2^31 elements."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = int(re.search(r"MemAvailable:\s+(\d+)", file.read()).group(1)) * 1024
    if free < 7 << 30 or bench.sanitizer != "none":
        raise Skip("memory")
    for env in [TWO_VENDORS] if not bench.is_long else layouts(2):
        bench.job(2, "big", env=env, timeout=180)


def case_A20(bench):
    """Only these elements, and all of them."""
    limit = bench.scaled(1, 2)
    for size in bench.scaled((1, 2, 3, 5), (1, 2, 3, 5, 7, 8)):
        for env in layouts(size)[:bench.scaled(2, 3)]:
            bench.job(size, "guards", env=env, limit=limit, timeout=bench.scaled(90, 3000))


def case_A21(bench):
    """Average of integers."""
    for size in (1, 2, 3, 5):
        for env in layouts(size):
            bench.job(size, "average", env=env)


def case_A22(bench):
    """NaN in min and max."""
    crcs = set()
    for vendors in ("cpu", "nvidia,amd", "nvidia,amd,amd,amd", "nvidia,nvidia,amd,amd", "nvidia,amd,cpu"):
        for env in ({}, {"HETCCL_HOST_ID": "a,b,b,c"}):
            results = bench.job(4, "nan", env={"HETCCL_VENDOR": vendors, **env})
            crcs |= {result.crc for result in results}
    check(len(crcs) == 1, f"different bits on different layouts: {crcs}")


def case_A23(bench):
    """Low-precision sums."""
    for env, variant in (({}, "exact"), ({"HETCCL_VENDOR": "nvidia,nvidia,nvidia,amd,amd,amd,amd"}, "bound"),
                         ({"HETCCL_VENDOR": "nvidia,amd,nvidia,amd,nvidia,amd,amd"}, "bound"),
                         ({"HETCCL_HOST_ID": "a,b,c,d,e,f,g"}, "bound")):
        results = bench.job(7, "lowsum", env=env, variant=variant)
        check(len({result.crc for result in results}) == 1, "ranks have different bits")
        bench.say(f"{env.get('HETCCL_VENDOR', env.get('HETCCL_HOST_ID', 'one island'))}: off by {results[0].notes['error']}")


def case_A24(bench):
    """The same bits on all ranks, for every algorithm and mix."""
    algorithms = bench.run_hetccl("plan", "allreduce", "--algos").stdout.split()
    check(algorithms, "no algorithms")
    n_runs = 0
    for size in bench.scaled((2, 3, 5), range(2, 10)):
        counts = "1,2,3,17,1000,4099,100003" + (",1000000" if bench.is_long else "")
        for env in [*layouts(size), {"HETCCL_VENDOR": "nvidia,amd,cpu"}]:
            for algorithm in ["", *algorithms]:
                results = bench.job(size, "bits", count=counts, env={**env, "HETCCL_ALGO": algorithm}, expect=None, timeout=90)
                unfit = [result for result in results if result.code != SUCCESS and "HETCCL_ALGO" in result.error]
                if algorithm and len(unfit) == size:
                    continue  # it says that it doesn't fit this cluster
                for result in results:
                    check(result.code == SUCCESS, f"{env}, algorithm {algorithm!r}: {result}")
                crcs = {result.crc for result in results}
                check(len(crcs) == 1, f"size {size}, {env}, algorithm {algorithm!r}: {crcs}")
                n_runs += 1
    bench.say(f"{n_runs} jobs, algorithms {algorithms}")
