/* SPDX-License-Identifier: Apache-2.0 */

/* ncclConfig_t of every release, built byte by byte as that release's compiler would lay it out. */

#include "check.h"

#include "api/api.h"

struct release {
    unsigned version;
    size_t size;
    size_t has_bytes; /* the members end here; what follows inside size is padding */
};

static const struct release releases[] = {
    {21400, 24, 20}, {21700, 40, 40}, {21800, 48, 44}, {22602, 48, 48}, {22703, 72, 72},
    {22800, 80, 80}, {22902, 88, 88}, {23003, 96, 92}, {23007, 96, 96}, {23100, 120, 116},
};

enum { N_RELEASES = sizeof(releases) / sizeof(releases[0]), ROOM_BYTES = 256 };

/* Where members are, from the table of releases, not from any header. */
enum {
    AT_BLOCKING = 16,
    AT_CGA = 20,
    AT_MIN_CTAS = 24,
    AT_MAX_CTAS = 28,
    AT_NET_NAME = 32,
    AT_SPLIT_SHARE = 40,
    AT_TRAFFIC_CLASS = 44,
    AT_COMM_NAME = 48,
    AT_COLLNET = 56,
    AT_CTA_POLICY = 60,
    AT_SHRINK_SHARE = 64,
    AT_NVLS_CTAS = 68,
    AT_CHANNELS = 72,
    AT_CENTRIC = 76,
    AT_GRAPH_USAGE = 80,
    AT_RMA_CTX = 84,
    AT_MAX_P2P = 88,
    AT_GRAPH_ORDER = 92,
    AT_HOST_CFT = 108,
};

struct bytes {
    _Alignas(16) unsigned char at[ROOM_BYTES];
};

static void put_int(struct bytes *config, size_t offset, int value)
{
    memcpy(config->at + offset, &value, sizeof(value));
}

/* All members undefined; padding and everything behind the struct is rubbish that no member would accept. */
static struct bytes make(const struct release *release)
{
    const unsigned magic = 0xcafebeef;
    const void *null = NULL;
    struct bytes config;

    memset(&config, 0xa5, sizeof(config));
    memcpy(config.at, &release->size, sizeof(release->size));
    memcpy(config.at + 8, &magic, sizeof(magic));
    memcpy(config.at + 12, &release->version, sizeof(release->version));
    for (size_t offset = AT_BLOCKING; offset + 4 <= release->has_bytes; offset += 4)
        put_int(&config, offset, INT_MIN);
    if (release->has_bytes >= AT_NET_NAME + 8)
        memcpy(config.at + AT_NET_NAME, &null, sizeof(null));
    if (release->has_bytes >= AT_COMM_NAME + 8)
        memcpy(config.at + AT_COMM_NAME, &null, sizeof(null));
    return config;
}

static enum hetccl_status read_as(enum hetccl_dialect dialect, const struct bytes *config,
                                  struct hetccl_comm_options *out)
{
    /* Exactly the caller's bytes, so that a sanitizer sees a read beyond them. */
    size_t size;
    unsigned char *copy;
    enum hetccl_status status;

    memcpy(&size, config->at, sizeof(size));
    size = size < 16 ? 16 : size;
    copy = test_malloc(size);
    memcpy(copy, config->at, size);
    status = hetccl_options_read(copy, dialect, out);
    test_free(copy);
    return status;
}

static void every_release_is_read(void **state)
{
    for (int i = 0; i < N_RELEASES; i++) {
        struct bytes config = make(&releases[i]);
        struct hetccl_comm_options options = {.is_blocking = false};

        assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
        assert_true(options.is_blocking);
        assert_string_equal(options.name, "");
        put_int(&config, AT_BLOCKING, 0);
        assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
        assert_false(options.is_blocking);
        fake_set_default_blocking(false);
        put_int(&config, AT_BLOCKING, INT_MIN);
        assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
        assert_false(options.is_blocking);
        put_int(&config, AT_BLOCKING, 1);
        assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
        assert_true(options.is_blocking);
        fake_set_default_blocking(true);
    }
}

static void names_are_read_where_they_exist(void **state)
{
    const char *name =
        "a name that is a good deal longer than the sixty-three characters that are kept of it";

    for (int i = 0; i < N_RELEASES; i++) {
        struct bytes config = make(&releases[i]);
        struct hetccl_comm_options options;
        bool has_name = releases[i].version >= 22700;

        if (has_name)
            memcpy(config.at + AT_COMM_NAME, &name, sizeof(const char *));
        assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
        assert_int_equal(strlen(options.name), has_name ? sizeof(options.name) - 1 : 0);
        assert_memory_equal(options.name, name, strlen(options.name));
    }
}

struct bad {
    size_t offset;
    int value;
    unsigned since;
    const char *words;
};

/* Each member out of its range is refused from the release on that has it; before that it is padding and not
 * looked at. */
static void ranges_are_checked(void **state)
{
    static const struct bad bad[] = {
        {AT_BLOCKING, 2, 21400, "blocking is 2: it takes 0 to 1"},
        {AT_BLOCKING, -1, 21400, "blocking is -1"},
        {AT_CGA, -3, 21700, "cgaClusterSize is -3: it takes 0 or more"},
        {AT_MIN_CTAS, 0, 21700, "minCTAs is 0: it takes 1 or more"},
        {AT_MAX_CTAS, -1, 21700, "maxCTAs is -1"},
        {AT_SPLIT_SHARE, 2, 21800, "splitShare is 2"},
        {AT_COLLNET, 2, 22700, "collnetEnable is 2"},
        {AT_CTA_POLICY, 4, 22700, "CTAPolicy is 4: it takes 0 to 3"},
        {AT_SHRINK_SHARE, -1, 22700, "shrinkShare is -1"},
        {AT_NVLS_CTAS, 0, 22700, "nvlsCTAs is 0"},
        {AT_CHANNELS, 0, 22800, "nChannelsPerNetPeer is 0"},
        {AT_CENTRIC, 2, 22800, "nvlinkCentricSched is 2"},
        {AT_GRAPH_USAGE, 3, 22900, "graphUsageMode is 3: it takes 0 to 2"},
        {AT_RMA_CTX, -1, 22900, "numRmaCtx is -1"},
        {AT_MAX_P2P, 0, 23000, "maxP2pPeers is 0"},
        {AT_GRAPH_ORDER, 2, 23005, "graphStreamOrdering is 2"},
        {AT_HOST_CFT, 4, 23100, "hostCftMode is 4: it takes 1 to 3"},
    };
    struct hetccl_comm_options options;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        for (int j = 0; j < N_RELEASES; j++) {
            struct bytes config = make(&releases[j]);
            bool has_member = releases[j].version >= bad[i].since;

            if (bad[i].offset + 4 > releases[j].size)
                continue;
            put_int(&config, bad[i].offset, bad[i].value);
            if (bad[i].since > releases[j].version && bad[i].offset + 4 <= releases[j].has_bytes)
                continue;
            assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options),
                             has_member ? HETCCL_ERR_ARG : HETCCL_OK);
            if (has_member)
                assert_error_says(bad[i].words);
        }
}

static void least_is_not_above_most(void **state)
{
    struct bytes config = make(&releases[N_RELEASES - 1]);
    struct hetccl_comm_options options;

    put_int(&config, AT_MIN_CTAS, 5);
    assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
    put_int(&config, AT_MAX_CTAS, 4);
    assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_ERR_ARG);
    assert_error_says("minCTAs is 5: it takes 1 to maxCTAs, which is 4");
    put_int(&config, AT_MAX_CTAS, 5);
    assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
}

/* AMD's header of 2.30.7 ends before graphStreamOrdering; NVIDIA's of the same version has it. */
static void amd_s_padding_is_not_nvidia_s_member(void **state)
{
    const struct release amd = {23007, 96, 92};
    struct bytes config = make(&amd);
    struct hetccl_comm_options options;

    assert_int_equal(read_as(HETCCL_DIALECT_RCCL, &config, &options), HETCCL_OK);
    assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_ERR_ARG);
    assert_error_says("graphStreamOrdering");
}

static void newer_and_larger_structs_are_truncated(void **state)
{
    const struct release future = {24000, 200, 116};
    struct bytes config = make(&future);
    struct hetccl_comm_options options;

    put_int(&config, AT_BLOCKING, 0);
    assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_OK);
    assert_false(options.is_blocking);
}

static void structs_that_were_not_initialised_are_refused(void **state)
{
    struct bytes config = make(&releases[0]);
    struct hetccl_comm_options options;

    put_int(&config, 8, 0);
    assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_ERR_ARG);
    assert_error_says("magic is 0x0");
    memset(&config, 0, sizeof(config));
    assert_int_equal(read_as(HETCCL_DIALECT_NCCL, &config, &options), HETCCL_ERR_ARG);
    assert_error_says("size is 0");
}

static void no_struct_means_the_defaults(void **state)
{
    struct hetccl_comm_options options;

    fake_set_default_blocking(false);
    assert_int_equal(hetccl_options_read(NULL, HETCCL_DIALECT_NCCL, &options), HETCCL_OK);
    assert_false(options.is_blocking);
}

static void our_own_initialiser_is_the_table_s_last_row_but_one(void **state)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    struct bytes same = make(&releases[N_RELEASES - 2]);

    assert_int_equal(sizeof(config), releases[N_RELEASES - 2].size);
    assert_memory_equal(&config, &same, sizeof(config));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_release_is_read, reset_fake),
        cmocka_unit_test_teardown(names_are_read_where_they_exist, reset_fake),
        cmocka_unit_test_teardown(ranges_are_checked, reset_fake),
        cmocka_unit_test_teardown(least_is_not_above_most, reset_fake),
        cmocka_unit_test_teardown(amd_s_padding_is_not_nvidia_s_member, reset_fake),
        cmocka_unit_test_teardown(newer_and_larger_structs_are_truncated, reset_fake),
        cmocka_unit_test_teardown(structs_that_were_not_initialised_are_refused, reset_fake),
        cmocka_unit_test_teardown(no_struct_means_the_defaults, reset_fake),
        cmocka_unit_test_teardown(our_own_initialiser_is_the_table_s_last_row_but_one, reset_fake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
