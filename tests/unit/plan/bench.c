/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void bench_open(struct bench *bench, const char *islands, const char *hosts)
{
    struct hetccl_rank_facts facts[BENCH_MAX_RANKS] = {0};
    struct hetccl_topo_args args = {.n_ranks = strlen(islands), .facts = facts};

    memset(bench, 0, sizeof(*bench));
    for (size_t rank = 0; rank < args.n_ranks; rank++) {
        facts[rank].vendor = HETCCL_VENDOR_NVIDIA;
        facts[rank].engine = HETCCL_ENGINE_CCL;
        facts[rank].library_key = (uint64_t)islands[rank];
        facts[rank].host_key = hosts != NULL ? (uint64_t)hosts[rank] : (uint64_t)islands[rank];
        facts[rank].link_kinds = (1U << HETCCL_LINK_KINDS) - 1;
    }
    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++)
        args.link_cost[kind] = hetccl_topo_default_link_cost((enum hetccl_link_kind)kind);
    for (int kind = 0; kind < HETCCL_ENGINE_KINDS; kind++)
        args.engine_cost[kind] = hetccl_topo_default_engine_cost((enum hetccl_engine_kind)kind);
    assert_int_equal(hetccl_topo_build(&args, &bench->topo), HETCCL_OK);
}

void bench_drop_plans(struct bench *bench)
{
    for (uint32_t rank = 0; rank < bench->topo.n_ranks; rank++) {
        hetccl_plan_destroy(bench->plans[rank]);
        bench->plans[rank] = NULL;
    }
}

void bench_close(struct bench *bench)
{
    bench_drop_plans(bench);
    hetccl_topo_fini(&bench->topo);
}

void bench_plan(struct bench *bench, const struct hetccl_plan_request *request)
{
    bench_drop_plans(bench);
    for (uint32_t rank = 0; rank < bench->topo.n_ranks; rank++) {
        bench->requests[rank] = *request;
        bench->requests[rank].rank = rank;
        assert_int_equal(hetccl_plan_build(&bench->topo, &bench->requests[rank], &bench->plans[rank]),
                         HETCCL_OK);
    }
}

uint64_t bench_island_sent(const struct bench *bench, uint32_t island)
{
    uint64_t sent = 0;

    for (uint32_t i = 0; i < bench->topo.islands[island].n_ranks; i++)
        sent += bench->plans[bench->topo.islands[island].ranks[i]]->cross_count;
    return sent;
}

struct hetccl_plan_request bench_request(enum hetccl_coll coll, size_t count)
{
    return (struct hetccl_plan_request){
        .coll = coll, .count = count, .elem_bytes = 4, .chunk_bytes = 1 << 20, .small_bytes = 0, .algo = ""};
}
