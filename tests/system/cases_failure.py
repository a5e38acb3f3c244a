# SPDX-License-Identifier: Apache-2.0
"""A14-A16: death, abort, disagreement."""

import random
import signal
import time

from bench import INVALID_USAGE, REMOTE_ERROR, SUCCESS, Failure, check

LAYOUTS = {
    "shm": {},
    "shm links": {"HETCCL_VENDOR": "nvidia,amd"},
    "tcp": {"HETCCL_HOST_ID": "a,b,c,d", "HETCCL_LINK": "tcp"},
    "mixed": {"HETCCL_VENDOR": "nvidia,nvidia,amd,amd", "HETCCL_HOST_ID": "a,a,a,b"},
}


def kill_one(bench, env, generator, op, **options):
    ranks = bench.start_job(4, op, env=env, iters=1000000, **options)
    time.sleep(generator.uniform(0.3, 1.2))
    check_death(bench, ranks)


def check_death(bench, ranks):
    """Kills rank 2, and the others have to notice."""
    check(not any([rank.has_ended() for rank in ranks]), "a rank ended by itself: " +
          "; ".join(str(rank.result()) for rank in ranks if rank.has_ended()))
    ranks[2].signal(signal.SIGKILL)
    killed = time.monotonic()
    for result in bench.wait(ranks, 25):
        if result.rank == 2:
            continue
        bench.check_sane(result)
        check(result.code == REMOTE_ERROR, f"not ncclRemoteError: {result}")
        check(result.ended - killed <= bench.seconds(10), f"left {result.ended - killed:.1f} s after the death: {result}")
        check("rank 2" in result.error, f"doesn't name rank 2: {result}")
        bench.check_talk(result)


def case_A14(bench):
    """A rank dies in the middle."""
    generator = random.Random(14)
    for name, env in LAYOUTS.items():
        for _ in range(bench.scaled(3, 50)):
            # 256 MiB in the full test; verified in every iteration, so that a wrong success is seen.
            kill_one(bench, env, generator, "allreduce", count=bench.scaled(1 << 20, 1 << 26))
            kill_one(bench, env, generator, "sendrecv", count=bench.scaled(1 << 20, 1 << 24))
        bench.say(f"{name}: all seen")


def case_A15(bench):
    """Abort does not wait for others."""
    spare = 1 if bench.sanitizer == "thread" else 0  # ThreadSanitizer has a thread of its own
    for env in ({}, {"HETCCL_VENDOR": "nvidia,amd"}, {"HETCCL_HOST_ID": "a,b"}):
        for variant in ("once", "twice"):
            ranks = bench.start_job(2, "abort", env=env, variant=variant, limit=2000)
            time.sleep(1)
            result = check_abort(bench, ranks)
            check(result.number("threads_left") <= spare, f"{env}, {variant}: {result.notes['threads_left']} threads left")
        ranks = bench.start_job(2, "leave", env=env, limit=2000)
        time.sleep(1)
        ranks[1].signal(signal.SIGSTOP)
        (result,) = bench.wait(ranks[:1], 15)
        ranks[1].signal(signal.SIGKILL)
        ranks[1].signal(signal.SIGCONT)
        bench.wait(ranks[1:], 10)
        check(result.status == 0, f"exit status {result.status}")
        check(result.ended - result.number("leaving_at") <= bench.seconds(2), "exit took more than 2 s")
    results = bench.wait(bench.start_job(3, "abort-init", skip_ranks=[1, 2], limit=500), 15)
    results += bench.wait(bench.start_job(3, "abort-init", skip_ranks=[1], limit=800), 15)
    for result in results:
        check(result.code == SUCCESS, str(result))
        check(result.number("abort_s") <= bench.seconds(2), f"abort of an init took {result.notes['abort_s']} s")
        check(result.number("threads_left") <= spare, f"{result.notes['threads_left']} threads left")


def check_abort(bench, ranks):
    """Stops rank 1, so that rank 0's abort ends calls that nothing else can end."""
    ranks[1].signal(signal.SIGSTOP)
    ranks[0].mark("go")
    (result,) = bench.wait(ranks[:1], 15)
    ranks[1].signal(signal.SIGKILL)
    ranks[1].signal(signal.SIGCONT)
    bench.wait(ranks[1:], 10)
    check(result.code == SUCCESS, str(result))
    check(result.number("abort_s") <= bench.seconds(2), f"abort took {result.notes['abort_s']} s")
    check(result.number("call") != SUCCESS, "the call that was aborted says success")
    return result


def disagree(bench, name, env, variant):
    try:
        return bench.job(4, "mismatch", env=env, variant=variant, expect=None, timeout=20)
    except Failure as failure:
        raise Failure(f"{name}, {variant}: {failure}") from failure


def case_A16(bench):
    """Ranks disagree on count, type, operation, root, or collective."""
    for name, env in LAYOUTS.items():
        for variant in ("count", "one", "type", "op", "root", "kind"):
            check_disagreement(bench, f"{name}, {variant}", variant, disagree(bench, name, env, variant))
        check_extra(bench, name, disagree(bench, name, env, "extra")[0])


def check_disagreement(bench, name, variant, results):
    for result in results:
        check(result.code == INVALID_USAGE, f"{name}: not ncclInvalidUsage: {result}")
        check(result.number("call_s") <= bench.seconds(10), f"{name}: seen after {result.notes['call_s']} s")
        check("rank" in result.error, f"{name}: no rank named: {result}")
        for word in {"count": ("256000", "512000"), "type": ("float32", "bfloat16"), "op": ("sum", "max"),
                     "kind": ("allreduce", "broadcast"), "ahead": ("allreduce", "broadcast"), "root": ("root",), "one": ()}[variant]:
            check(word in result.error, f"{name}: no {word} in {result.error!r}")


def check_extra(bench, name, result):
    check(result.code != SUCCESS and result.number("call_s") <= bench.seconds(10),
          f"{name}: the call that only rank 0 made ends as {result}")
