/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "topo/topo.h"

enum {
    MAX_RANKS = 16,
    ALL_LINKS = (1 << HETCCL_LINK_SHM) | (1 << HETCCL_LINK_VERBS) | (1 << HETCCL_LINK_TCP)
};

struct bench {
    struct hetccl_rank_facts facts[MAX_RANKS];
    size_t sizes[4];
    struct hetccl_topo_args args;
};

/* One letter a rank: n, a: GPUs with ccl; p: nvidia with p2p; c: cpu with shm; x: cpu without engine. Hosts:
 * digits. */
static void set_up(struct bench *b, const char *ranks, const char *hosts)
{
    memset(b, 0, sizeof(*b));
    b->args.n_ranks = strlen(ranks);
    b->args.facts = b->facts;
    for (size_t i = 0; i < b->args.n_ranks; i++) {
        struct hetccl_rank_facts *facts = &b->facts[i];

        facts->vendor = ranks[i] == 'a'                      ? HETCCL_VENDOR_AMD
                        : ranks[i] == 'c' || ranks[i] == 'x' ? HETCCL_VENDOR_CPU
                                                             : HETCCL_VENDOR_NVIDIA;
        facts->engine = ranks[i] == 'p'   ? HETCCL_ENGINE_P2P
                        : ranks[i] == 'c' ? HETCCL_ENGINE_SHM
                        : ranks[i] == 'x' ? HETCCL_ENGINE_NONE
                                          : HETCCL_ENGINE_CCL;
        facts->host_key = 1000 - (uint64_t)hosts[i];
        facts->library_key = 7;
        facts->link_kinds = ALL_LINKS;
    }
    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++)
        b->args.link_cost[kind] = hetccl_topo_default_link_cost((enum hetccl_link_kind)kind);
    for (int kind = 0; kind < HETCCL_ENGINE_KINDS; kind++)
        b->args.engine_cost[kind] = hetccl_topo_default_engine_cost((enum hetccl_engine_kind)kind);
}

/* "022": the island, host or domain of each rank, as digits. */
static void expect_digits(const char *expected, const uint32_t *values, uint32_t n)
{
    char text[MAX_RANKS + 1] = "";

    for (uint32_t i = 0; i < n; i++)
        text[i] = (char)('0' + values[i]);
    assert_string_equal(expected, text);
}

static void expect_topo(const struct hetccl_topo *topo, const char *islands, const char *hosts,
                        const char *domains)
{
    uint32_t domain_of[MAX_RANKS];

    expect_digits(islands, topo->island_of, topo->n_ranks);
    expect_digits(hosts, topo->host_of, topo->n_ranks);
    for (uint32_t rank = 0; rank < topo->n_ranks; rank++) {
        const struct hetccl_island *island = &topo->islands[topo->island_of[rank]];

        domain_of[rank] = island->domain;
        assert_int_equal(island->ranks[topo->island_rank_of[rank]], rank);
        for (uint32_t i = 1; i < island->n_ranks; i++)
            assert_true(island->ranks[i - 1] < island->ranks[i]);
    }
    expect_digits(domains, domain_of, topo->n_ranks);
    for (uint32_t d = 0; d < topo->n_domains; d++) {
        for (uint32_t i = 0; i < topo->domains[d].n_islands; i++) {
            assert_int_equal(topo->islands[topo->domains[d].islands[i]].domain, d);
            assert_true(i == 0 || topo->domains[d].islands[i - 1] < topo->domains[d].islands[i]);
        }
    }
}

static void expect_build(const char *ranks, const char *hosts, const char *islands, const char *domains)
{
    char numbered[MAX_RANKS + 1] = "";
    struct hetccl_topo topo;
    struct bench b;
    int n_hosts = 0;

    for (size_t i = 0; hosts[i] != '\0'; i++) {
        const char *first = strchr(hosts, hosts[i]);

        numbered[i] = first == hosts + i ? (char)('0' + n_hosts++) : numbered[first - hosts];
    }
    set_up(&b, ranks, hosts);
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, islands, numbered, domains);
    assert_int_equal(topo.n_hosts, n_hosts);
    hetccl_topo_fini(&topo);
}

static void islands_follow_vendor_engine_and_host(void **state)
{
    expect_build("n", "5", "0", "0");
    expect_build("nnaa", "1122", "0011", "0011");
    expect_build("anan", "1111", "0101", "0000"); /* one host: one domain */
    expect_build("nnnn", "1122", "0000", "0000"); /* ccl spans hosts */
    expect_build("pppp", "1122", "0011", "0011"); /* p2p doesn't */
    expect_build("cccc", "1212", "0101", "0101"); /* nor shm */
    expect_build("xx", "11", "01", "00");         /* without an engine: islands of one */
    expect_build("np", "11", "01", "00");         /* one vendor, two engines */
    expect_build("ncnc", "1122", "0102", "0102"); /* an island over two hosts is a domain of its own */
    expect_build("cacanp", "112213", "012134", "012103");
}

static void libraries_split_ccl_islands(void **state)
{
    struct hetccl_topo topo;
    struct bench b;

    set_up(&b, "nnnn", "1111");
    b.facts[1].library_key = b.facts[3].library_key = 8;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, "0101", "0000", "0000");
    hetccl_topo_fini(&topo);
    set_up(&b, "pp", "11");
    b.facts[1].library_key = 8; /* nobody loads one here */
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    assert_int_equal(topo.n_islands, 1);
    hetccl_topo_fini(&topo);
}

static void one_rank_has_no_engine(void **state)
{
    struct hetccl_topo topo;
    struct bench b;

    set_up(&b, "nna", "112");
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    assert_int_equal(topo.islands[0].engine, HETCCL_ENGINE_CCL);
    assert_int_equal(topo.islands[1].engine, HETCCL_ENGINE_NONE);
    assert_int_equal(topo.islands[1].vendor, HETCCL_VENDOR_AMD);
    assert_int_equal(topo.islands[1].host, 1);
    hetccl_topo_fini(&topo);
    set_up(&b, "nn", "12");
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    assert_int_equal(topo.islands[0].host, UINT32_MAX);
    hetccl_topo_fini(&topo);
}

static void split_sizes_cut_every_island(void **state)
{
    struct hetccl_topo topo;
    struct bench b;

    set_up(&b, "nnnnnaaa", "11112333");
    b.sizes[0] = 2;
    b.args.split_sizes = b.sizes;
    b.args.n_split_sizes = 1;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, "00111223", "00001222", "00111222");
    hetccl_topo_fini(&topo);
    b.sizes[0] = 1;
    b.sizes[1] = 0; /* nothing */
    b.sizes[2] = 3;
    b.args.n_split_sizes = 3;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, "01112344", "00001222", "00001222");
    hetccl_topo_fini(&topo);
}

/* One letter a rank: its GPU ('-': none). */
static void set_gpus(struct bench *b, const char *gpus)
{
    for (size_t i = 0; gpus[i] != '\0'; i++) {
        b->facts[i].gpu_key = gpus[i] == '-' ? 0 : (uint64_t)gpus[i];
        b->facts[i].has_p2p = true;
    }
}

static void expect_engines(const struct hetccl_topo *topo, const char *engines)
{
    char text[MAX_RANKS + 1] = "";

    for (uint32_t i = 0; i < topo->n_islands; i++)
        text[i] = hetccl_engine_name(topo->islands[i].engine)[0];
    assert_string_equal(engines, text);
}

static void shared_gpus_end_a_ccl_island(void **state)
{
    struct hetccl_topo topo;
    struct bench b;

    set_up(&b, "nnnn", "1111");
    set_gpus(&b, "gggh");
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, "0000", "0000", "0000");
    expect_engines(&topo, "p");
    assert_false(hetccl_topo_is_native(&topo));
    hetccl_topo_fini(&topo);
    /* p2p is of one host; who can't do it is alone. The others of another vendor keep ccl. */
    set_up(&b, "nannnan", "1122333");
    set_gpus(&b, "gghgijk");
    b.facts[4].has_p2p = false;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, "0122314", "0011222", "0122313");
    expect_engines(&topo, "ncpnn");
    hetccl_topo_fini(&topo);
    /* Ranks without a GPU address, and the same GPU in two libraries' islands, are no hindrance. */
    set_up(&b, "nnnn", "1111");
    set_gpus(&b, "--g-");
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_engines(&topo, "c");
    hetccl_topo_fini(&topo);
    set_gpus(&b, "gghh");
    b.facts[1].library_key = b.facts[3].library_key = 8;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, "0101", "0000", "0000");
    expect_engines(&topo, "cc");
    hetccl_topo_fini(&topo);
}

static void shared_gpus_count_in_the_cut_islands(void **state)
{
    struct hetccl_topo topo;
    struct bench b;

    set_up(&b, "nnnnnn", "111122");
    set_gpus(&b, "ghghii");
    b.sizes[0] = b.sizes[1] = 2;
    b.args.split_sizes = b.sizes;
    b.args.n_split_sizes = 2;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    expect_topo(&topo, "001122", "000011", "000011");
    expect_engines(&topo, "ccp");
    hetccl_topo_fini(&topo);
}

static void shared_gpus_are_refused_when_ccl_is_a_must(void **state)
{
    struct hetccl_topo topo;
    struct bench b;

    set_up(&b, "nnnn", "1111");
    set_gpus(&b, "ghkh");
    b.args.must_use_ccl = true;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "ranks 1 and 3 share one GPU"));
    assert_non_null(strstr(hetccl_last_error_thread(), "HETCCL_ENGINE"));
}

static void one_ccl_island_is_native(void **state)
{
    static const struct {
        const char *ranks, *hosts;
        bool is_native;
    } cases[] = {{"n", "1", true},    {"nnn", "123", true}, {"aa", "11", true}, {"na", "11", false},
                 {"nc", "11", false}, {"pp", "11", false},  {"c", "1", false},  {"p", "1", false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hetccl_topo topo;
        struct bench b;

        set_up(&b, cases[i].ranks, cases[i].hosts);
        assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
        assert_int_equal(hetccl_topo_is_native(&topo), cases[i].is_native);
        hetccl_topo_fini(&topo);
    }
}

static uint64_t hash_of(const struct bench *b)
{
    struct hetccl_topo topo;
    uint64_t hash;

    assert_int_equal(hetccl_topo_build(&b->args, &topo), HETCCL_OK);
    hash = topo.hash;
    hetccl_topo_fini(&topo);
    return hash;
}

static void hash_tells_facts_apart(void **state)
{
    struct bench b;
    uint64_t hash;

    set_up(&b, "nnaacc", "112233");
    hash = hash_of(&b);
    assert_true(hash == hash_of(&b));
    for (int change = 0; change < 8; change++) {
        set_up(&b, "nnaacc", "112233");
        b.facts[0].host_key += change == 0 ? 5000 : 0;
        b.facts[1].library_key += change == 1;
        b.facts[2].link_kinds = change == 2 ? 1U << HETCCL_LINK_TCP : ALL_LINKS;
        b.facts[2].vendor = b.facts[3].vendor = change == 3 ? HETCCL_VENDOR_NVIDIA : HETCCL_VENDOR_AMD;
        b.facts[4].engine = change == 4 ? HETCCL_ENGINE_NONE : HETCCL_ENGINE_SHM;
        b.args.link_cost[HETCCL_LINK_TCP].latency_us += change == 5;
        b.args.engine_cost[HETCCL_ENGINE_CCL].bytes_per_us += change == 6;
        b.args.split_sizes = b.sizes;
        b.sizes[0] = 1;
        b.args.n_split_sizes = change == 7;
        if (hash_of(&b) == hash)
            fail_msg("change %d isn't in the hash", change);
    }
}

static void link_kind_is_the_best_of_both(void **state)
{
    enum hetccl_link_kind kind = HETCCL_LINK_KINDS;
    struct hetccl_topo topo;
    struct bench b;

    set_up(&b, "naan", "1122");
    b.facts[1].link_kinds = 1U << HETCCL_LINK_TCP | 1U << HETCCL_LINK_SHM;
    b.facts[3].link_kinds = 1U << HETCCL_LINK_VERBS;
    assert_int_equal(hetccl_topo_build(&b.args, &topo), HETCCL_OK);
    assert_int_equal(hetccl_topo_link_kind(&topo, 0, 1, &kind), HETCCL_OK);
    assert_int_equal(kind, HETCCL_LINK_SHM);
    assert_int_equal(hetccl_topo_link_kind(&topo, 0, 2, &kind), HETCCL_OK);
    assert_int_equal(kind, HETCCL_LINK_VERBS);
    assert_int_equal(hetccl_topo_link_kind(&topo, 1, 2, &kind), HETCCL_OK);
    assert_int_equal(kind, HETCCL_LINK_TCP);
    assert_int_equal(hetccl_topo_link_kind(&topo, 2, 3, &kind), HETCCL_OK);
    assert_int_equal(kind, HETCCL_LINK_VERBS); /* one host, but rank 3 can't shm */
    kind = HETCCL_LINK_KINDS;
    assert_int_equal(hetccl_topo_link_kind(&topo, 1, 3, &kind), HETCCL_ERR_USAGE);
    assert_int_equal(kind, HETCCL_LINK_KINDS);
    assert_non_null(strstr(hetccl_last_error_thread(), "ranks 1 and 3"));
    assert_non_null(strstr(hetccl_last_error_thread(), "HETCCL_LINK"));
    hetccl_topo_fini(&topo);
}

static void names_are_found_again(void **state)
{
    for (int i = 0; i < HETCCL_VENDORS; i++)
        assert_int_equal(hetccl_vendor_find(hetccl_vendor_name((enum hetccl_vendor)i)), i);
    for (int i = 0; i < HETCCL_LINK_KINDS; i++)
        assert_int_equal(hetccl_link_find(hetccl_link_name((enum hetccl_link_kind)i)), i);
    assert_int_equal(hetccl_vendor_find("intel"), -1);
    assert_int_equal(hetccl_link_find(""), -1);
    assert_string_equal(hetccl_engine_name(HETCCL_ENGINE_CCL), "ccl");
}

static void no_memory_is_an_error(void **state)
{
    struct hetccl_topo topo;
    unsigned n_failures = 0;
    struct bench b;

    set_up(&b, "nnaa", "1122");
    for (unsigned n = 1;; n++) {
        enum hetccl_status status;

        hetccl_fault_arm(HETCCL_FAULT_ALLOC, n);
        status = hetccl_topo_build(&b.args, &topo);
        hetccl_fault_arm(HETCCL_FAULT_ALLOC, 0);
        if (status == HETCCL_OK)
            break;
        assert_int_equal(status, HETCCL_ERR_SYSTEM);
        n_failures++;
    }
    assert_int_equal(n_failures, 5);
    hetccl_topo_fini(&topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(islands_follow_vendor_engine_and_host),
        cmocka_unit_test(libraries_split_ccl_islands),
        cmocka_unit_test(one_rank_has_no_engine),
        cmocka_unit_test(split_sizes_cut_every_island),
        cmocka_unit_test(shared_gpus_end_a_ccl_island),
        cmocka_unit_test(shared_gpus_count_in_the_cut_islands),
        cmocka_unit_test(shared_gpus_are_refused_when_ccl_is_a_must),
        cmocka_unit_test(one_ccl_island_is_native),
        cmocka_unit_test(hash_tells_facts_apart),
        cmocka_unit_test(link_kind_is_the_best_of_both),
        cmocka_unit_test(names_are_found_again),
        cmocka_unit_test(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
