/* SPDX-License-Identifier: Apache-2.0 */

/* hetccl.h, memory, properties, teams, and the answers for what isn't offered. */

#include "check.h"

#include "api/device_api.h"
#include "hetccl/hetccl.h"

static struct hetccl_comm *comm;
static ncclComm_t handle;

/* Ranks 0..3; islands {0,2} of CPUs on host 0 and {1,3} of AMD on host 1. */
static struct hetccl_island islands[2] = {
    {.vendor = HETCCL_VENDOR_CPU, .engine = HETCCL_ENGINE_SHM, .n_ranks = 2},
    {.vendor = HETCCL_VENDOR_AMD, .engine = HETCCL_ENGINE_CCL, .n_ranks = 2},
};
static uint32_t island_of[4] = {0, 1, 0, 1}, island_rank_of[4] = {0, 0, 1, 1}, host_of[4] = {0, 1, 0, 1};
static struct hetccl_topo topo = {
    .n_ranks = 4,
    .n_islands = 2,
    .n_hosts = 2,
    .islands = islands,
    .island_of = island_of,
    .island_rank_of = island_rank_of,
    .host_of = host_of,
};

static int set_up(void **state)
{
    comm = fake_make(4, 2, true);
    handle = handle_of(comm);
    fake_set_topo(comm, &topo);
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(ncclCommDestroy(handle), ncclSuccess);
    return reset_fake(state);
}

static void a_communicator_tells_of_itself(void **state)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};

    assert_int_equal(hetcclCommInfo(handle, &info), ncclSuccess);
    assert_int_equal(info.size, sizeof(info));
    assert_int_equal(info.nRanks, 4);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.nIslands, 2);
    assert_int_equal(info.island, 0);
    assert_int_equal(info.islandRank, 1);
    assert_int_equal(info.islandSize, 2);
    assert_int_equal(info.nHosts, 2);
    assert_string_equal(info.vendor, "cpu");
    assert_string_equal(info.engine, "shm");
    assert_string_equal(info.device, "host");
    assert_string_equal(info.lastPlan, "flat");
    assert_int_equal(info.lastPlanIsSmall, 1);
    assert_string_equal(hetcclVersion(), "0.1.0");
}

static void a_rank_is_told_of(void **state)
{
    hetcclRankInfo_t info = {.size = sizeof(info)};

    assert_int_equal(hetcclRankInfo(handle, 3, &info), ncclSuccess);
    assert_int_equal(info.island, 1);
    assert_int_equal(info.islandRank, 1);
    assert_int_equal(info.host, 1);
    assert_string_equal(info.vendor, "amd");
    assert_string_equal(info.engine, "ccl");
    assert_string_equal(info.link, "tcp");
    assert_string_equal(info.hostName, "somewhere");
    assert_int_equal(hetcclRankInfo(handle, 4, &info), ncclInvalidArgument);
    assert_error_says("rank 4");
    assert_int_equal(hetcclRankInfo(handle, -1, &info), ncclInvalidArgument);
}

static void structs_of_other_sizes_are_filled_as_far_as_they_go(void **state)
{
    struct {
        hetcclCounters_t counters;
        uint64_t newer;
        uint64_t guard;
    } larger = {.counters = {.size = sizeof(hetcclCounters_t) + 8}, .newer = 5, .guard = 6};
    struct {
        size_t size;
        uint64_t calls;
        uint64_t guard;
    } smaller = {.size = 16, .guard = 7};

    assert_int_equal(hetcclCommCounters(handle, &larger.counters), ncclSuccess);
    assert_int_equal(larger.counters.calls, 1);
    assert_int_equal(larger.counters.crossBytesSent, 3);
    assert_int_equal(larger.counters.copiedBytes, 7);
    assert_int_equal(larger.newer, 0);
    assert_int_equal(larger.guard, 6);
    assert_int_equal(hetcclCommCounters(handle, (hetcclCounters_t *)(void *)&smaller), ncclSuccess);
    assert_int_equal(smaller.calls, 1);
    assert_int_equal(smaller.guard, 7);
    smaller.size = 0;
    assert_int_equal(hetcclCommCounters(handle, (hetcclCounters_t *)(void *)&smaller), ncclInvalidArgument);
    assert_error_says("size is 0");
}

static void bad_questions_are_refused(void **state)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};
    uint64_t bytes;

    assert_int_equal(hetcclCommInfo(NULL, &info), ncclInvalidArgument);
    assert_int_equal(hetcclCommInfo(handle, NULL), ncclInvalidArgument);
    assert_int_equal(hetcclCommBound(handle, "nonsense", 1, 4, -1, &bytes), ncclInvalidArgument);
    assert_error_says("'nonsense'");
    assert_int_equal(hetcclCommBound(handle, "broadcast", 1, 4, 4, &bytes), ncclInvalidArgument);
    assert_int_equal(hetcclCommBound(handle, "broadcast", 1, 4, 0, NULL), ncclInvalidArgument);
    fake_set_topo(comm, NULL);
    assert_int_equal(hetcclCommInfo(handle, &info), ncclInvalidArgument);
    assert_error_says("isn't initialised");
}

/* DESIGN: all-reduce over p islands moves 2 (p - 1) S, a broadcast (p - 1) S. */
static void bounds_are_the_plan_s(void **state)
{
    uint64_t bytes = 0;

    assert_int_equal(hetcclCommBound(handle, "allreduce", 1000, 4, -1, &bytes), ncclSuccess);
    assert_int_equal(bytes, 2 * 4000);
    assert_int_equal(hetcclCommBound(handle, "broadcast", 1000, 4, 3, &bytes), ncclSuccess);
    assert_int_equal(bytes, 4000);
}

static void memory_comes_and_goes(void **state)
{
    void *memory = NULL;
    void *registration = NULL;
    ncclWindow_t window = (ncclWindow_t)(void *)&memory;
    uint64_t value = 9;

    assert_int_equal(ncclMemAlloc(&memory, 100), ncclSuccess);
    memset(memory, 1, 100);
    assert_int_equal(ncclCommRegister(handle, memory, 100, &registration), ncclSuccess);
    assert_non_null(registration);
    assert_int_equal(ncclCommDeregister(handle, registration), ncclSuccess);
    assert_int_equal(ncclCommDeregister(handle, NULL), ncclSuccess);
    assert_int_equal(fake_count_events("deregister"), 1);
    assert_int_equal(ncclCommRegister(handle, NULL, 100, &registration), ncclInvalidArgument);
    assert_int_equal(ncclCommRegister(handle, memory, 0, &registration), ncclInvalidArgument);
    assert_int_equal(ncclCommWindowRegister(handle, memory, 100, &window, NCCL_WIN_COLL_SYMMETRIC),
                     ncclSuccess);
    assert_null(window);
    assert_int_equal(ncclCommWindowDeregister(handle, window), ncclSuccess);
    assert_int_equal(ncclCommWindowRegister(handle, memory, 100, &window, 0x80), ncclInvalidArgument);
    assert_int_equal(ncclCommWindowDeregister(handle, (ncclWindow_t)memory), ncclInvalidArgument);
    assert_int_equal(ncclMemFree(memory), ncclSuccess);
    assert_int_equal(ncclMemFree(NULL), ncclSuccess);
    assert_int_equal(ncclMemAlloc(NULL, 1), ncclInvalidArgument);
    assert_int_equal(ncclMemAlloc(&memory, 0), ncclSuccess);
    assert_null(memory);
    assert_int_equal(ncclCommMemStats(handle, ncclStatGpuMemTotal, &value), ncclSuccess);
    assert_int_equal(value, 0);
    assert_int_equal(ncclCommMemStats(handle, (ncclCommMemStat_t)4, &value), ncclInvalidArgument);
}

static void properties_say_that_there_is_no_device_api(void **state)
{
    struct {
        ncclCommProperties_t known;
        char newer[16];
        char guard;
    } properties;

    memset(&properties, 0xff, sizeof(properties));
    properties.known.size = offsetof(ncclCommProperties_t, railedGinType) + 8 + 16;
    properties.known.magic = NCCL_API_MAGIC;
    properties.known.version = 23100;
    assert_int_equal(ncclCommQueryProperties(handle, &properties.known), ncclSuccess);
    assert_int_equal(properties.known.rank, 2);
    assert_int_equal(properties.known.nRanks, 4);
    assert_int_equal(properties.known.cudaDev, 3);
    assert_false(properties.known.deviceApiSupport);
    assert_false(properties.known.multimemSupport);
    assert_false(properties.known.hostRmaSupport);
    assert_int_equal(properties.known.ginType, 0);
    assert_int_equal(properties.known.nLsaTeams, 4);
    assert_int_equal(properties.newer[0], 0);
    assert_int_equal(properties.newer[15], 0);
    assert_int_equal(properties.guard, (char)0xff);
    /* 2.29.2 ends after ginType */
    memset(&properties, 0xff, sizeof(properties));
    properties.known.size = 40;
    properties.known.magic = NCCL_API_MAGIC;
    assert_int_equal(ncclCommQueryProperties(handle, &properties.known), ncclSuccess);
    assert_int_equal(properties.known.ginType, 0);
    assert_int_equal(properties.known.nLsaTeams, -1);
    properties.known.magic = 0;
    assert_int_equal(ncclCommQueryProperties(handle, &properties.known), ncclInvalidArgument);
    assert_error_says("NCCL_COMM_PROPERTIES_INITIALIZER");
}

static void teams_are_everybody_and_oneself(void **state)
{
    ncclTeam_t world = ncclTeamWorld(handle);
    ncclTeam_t lsa = ncclTeamLsa(handle);

    assert_int_equal(world.nRanks, 4);
    assert_int_equal(world.rank, 2);
    assert_int_equal(world.stride, 1);
    assert_int_equal(lsa.nRanks, 1);
    assert_int_equal(lsa.rank, 0);
    assert_int_equal(ncclTeamRankToWorld(handle, world, 3), 3);
    assert_int_equal(ncclTeamRankToWorld(handle, lsa, 0), 2);
    assert_int_equal(ncclTeamRail(handle).nRanks, 4);
    assert_int_equal(ncclTeamWorld(NULL).nRanks, 0);
    assert_int_equal(ncclTeamRankToWorld(NULL, world, 0), -1);
}

static void what_is_not_offered_is_refused_in_words(void **state)
{
    const ncclTeam_t team = {1, 0, 1};
    ncclComm_t grown = handle;
    ncclUniqueId id;
    void *pointer;

    assert_int_equal(ncclPutSignal(NULL, 0, ncclInt8, 0, NULL, 0, 0, 0, 0, handle, NULL), ncclInvalidUsage);
    assert_error_says("ncclPutSignal: one-sided");
    assert_int_equal(ncclSignal(0, 0, 0, 0, handle, NULL), ncclInvalidUsage);
    assert_int_equal(ncclWaitSignal(0, NULL, handle, NULL), ncclInvalidUsage);
    assert_int_equal(ncclWinGetUserPtr(handle, NULL, &pointer), ncclInvalidUsage);
    assert_int_equal(ncclCommSuspend(handle, NCCL_SUSPEND_MEM), ncclInvalidUsage);
    assert_int_equal(ncclCommResume(handle), ncclInvalidUsage);
    assert_int_equal(ncclCommGetUniqueId(handle, &id), ncclInvalidUsage);
    assert_int_equal(ncclCommGrow(handle, 8, NULL, -1, &grown, NULL), ncclInvalidUsage);
    assert_error_says("can't add ranks");
    assert_null(grown);
    assert_int_equal(ncclCommGrow(NULL, 8, &id, 5, &grown, NULL), ncclInvalidUsage);
    assert_int_equal(ncclCommSuspend(NULL, 0), ncclInvalidArgument);
    assert_int_equal(ncclDevCommCreate(handle, NULL, NULL), ncclInvalidUsage);
    assert_error_says("ncclDevCommCreate: this library has no device API");
    assert_int_equal(ncclGetLsaDevicePointer(NULL, 0, 0, &pointer), ncclInvalidUsage);
    assert_int_equal(ncclLsaBarrierCreateRequirement(team, 1, NULL, NULL), ncclInvalidUsage);
    assert_int_equal(ncclLLA2ACalcSlots(1, 1), 0);
}

static void there_are_no_parameters(void **state)
{
    const char **table = NULL;
    const char *value;
    ncclParamHandle_t parameter;
    int64_t number;
    int n = 5;

    assert_int_equal(ncclParamBind(&parameter, "NCCL_DEBUG"), ncclInvalidArgument);
    assert_error_says("no parameter 'NCCL_DEBUG'");
    assert_int_equal(ncclParamGetI64(NULL, &number), ncclInvalidArgument);
    assert_int_equal(ncclParamGetParameter("x", &value, &n), ncclInvalidArgument);
    assert_int_equal(ncclParamGetAllParameterKeys(&table, &n), ncclSuccess);
    assert_non_null(table);
    assert_int_equal(n, 0);
    ncclParamDumpAll();
}

static void the_library_tells_its_version_and_results(void **state)
{
    int version = 0;

    assert_int_equal(ncclGetVersion(&version), ncclSuccess);
    assert_int_equal(version, 23007);
    assert_int_equal(version, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
    assert_int_equal(ncclGetVersion(NULL), ncclInvalidArgument);
    for (int result = -1; result <= ncclNumResults; result++) {
        const char *text = ncclGetErrorString((ncclResult_t)result);

        assert_non_null(text);
        for (int other = 0; other < result && result < ncclNumResults; other++)
            assert_string_not_equal(text, ncclGetErrorString((ncclResult_t)other));
    }
    ncclResetDebugInit();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_communicator_tells_of_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rank_is_told_of, set_up, tear_down),
        cmocka_unit_test_setup_teardown(structs_of_other_sizes_are_filled_as_far_as_they_go, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bad_questions_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_are_the_plan_s, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_comes_and_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(properties_say_that_there_is_no_device_api, set_up, tear_down),
        cmocka_unit_test_setup_teardown(teams_are_everybody_and_oneself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_offered_is_refused_in_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_are_no_parameters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_library_tells_its_version_and_results, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
