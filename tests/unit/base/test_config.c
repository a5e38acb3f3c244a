/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: what is read, what is refused and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"

/* Parses with one variable set. */
static enum hetccl_status parse_with(const char *name, const char *value, struct hetccl_config *out)
{
    enum hetccl_status status;

    setenv(name, value, 1);
    status = hetccl_config_parse(out);
    unsetenv(name);
    return status;
}

static void assert_refused(const char *name, const char *value, const char *hint)
{
    struct hetccl_config config = {.chunk_bytes = 77};

    assert_int_equal(parse_with(name, value, &config), HETCCL_ERR_USAGE);
    assert_int_equal(config.chunk_bytes, 77); /* written on success only */
    assert_non_null(strstr(hetccl_last_error_thread(), name));
    assert_non_null(strstr(hetccl_last_error_thread(), value));
    assert_non_null(strstr(hetccl_last_error_thread(), hint));
}

static void test_defaults(void **state)
{
    struct hetccl_config config;

    assert_int_equal(hetccl_config_parse(&config), HETCCL_OK);
    assert_int_equal(config.debug, HETCCL_LOG_NONE);
    assert_int_equal(config.device, HETCCL_DEVICE_AUTO);
    assert_int_equal(config.chunk_bytes, 1 << 20);
    assert_int_equal(config.init_timeout_s, 300);
    assert_true(config.blocking);
    assert_string_equal(config.link, "shm,tcp");
    assert_int_equal(config.port_first, 0);
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"1", 1}, {"4096", 4096}, {"64K", 65536}, {"2m", 2 << 20}, {"1G", 1 << 30}, {"0x100", 256}};
    static const char *const bad[] = {"", "12abc", "-1", "0", "1T", "99999999999999999999", "5G", "K"};
    struct hetccl_config config;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(parse_with("HETCCL_CHUNK_BYTES", good[i].text, &config), HETCCL_OK);
        assert_int_equal(config.chunk_bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused("HETCCL_CHUNK_BYTES", bad[i], "a number from 1 to");
}

static void test_choices_and_flags(void **state)
{
    struct hetccl_config config;

    assert_int_equal(parse_with("HETCCL_DEVICE", "Host", &config), HETCCL_OK);
    assert_int_equal(config.device, HETCCL_DEVICE_HOST);
    assert_refused("HETCCL_DEVICE", "tpu", "auto host cuda hip");
    assert_int_equal(parse_with("HETCCL_SHM_DISABLE", "1", &config), HETCCL_OK);
    assert_true(config.shm_disable);
    assert_refused("HETCCL_SHM_DISABLE", "yes", "0 or 1");
}

static void test_ports(void **state)
{
    static const char *const bad[] = {"5", "5-", "0-7", "7-5", "1-65536", "a-b", "1-2x", "99999999999-1"};
    struct hetccl_config config;

    assert_int_equal(parse_with("HETCCL_PORT_RANGE", "50000-50031", &config), HETCCL_OK);
    assert_int_equal(config.port_first, 50000);
    assert_int_equal(config.port_last, 50031);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused("HETCCL_PORT_RANGE", bad[i], "first-last");
}

static void test_aliases(void **state)
{
    struct hetccl_config config;

    assert_int_equal(parse_with("NCCL_SOCKET_IFNAME", "eth", &config), HETCCL_OK);
    assert_string_equal(config.socket_ifname, "eth");
    assert_int_equal(parse_with("NCCL_DEBUG", "VERSION", &config), HETCCL_OK);
    assert_int_equal(config.debug, HETCCL_LOG_WARN);
    /* Our own name wins. */
    setenv("HETCCL_SOCKET_IFNAME", "ib", 1);
    assert_int_equal(parse_with("NCCL_SOCKET_IFNAME", "eth", &config), HETCCL_OK);
    unsetenv("HETCCL_SOCKET_IFNAME");
    assert_string_equal(config.socket_ifname, "ib");
    assert_refused("NCCL_BUFFSIZE", "12abc", "a number from");
}

static void test_list_entries(void **state)
{
    char entry[HETCCL_CONFIG_TEXT_BYTES];

    hetccl_config_list_entry("nvidia,amd,cpu", 1, entry);
    assert_string_equal(entry, "amd");
    hetccl_config_list_entry("nvidia,amd,cpu", 5, entry);
    assert_string_equal(entry, "cpu");
    hetccl_config_list_entry("", 3, entry);
    assert_string_equal(entry, "");
    hetccl_config_list_entry("a,,b", 1, entry);
    assert_string_equal(entry, "");
}

static void test_wire_hash(void **state)
{
    struct hetccl_config plain;
    struct hetccl_config other;

    assert_int_equal(hetccl_config_parse(&plain), HETCCL_OK);
    assert_int_equal(parse_with("HETCCL_CHUNK_BYTES", "4096", &other), HETCCL_OK);
    assert_true(hetccl_config_wire_hash(&plain) != hetccl_config_wire_hash(&other));
    assert_int_equal(parse_with("HETCCL_ALGO", "flat", &other), HETCCL_OK);
    assert_true(hetccl_config_wire_hash(&plain) != hetccl_config_wire_hash(&other));
    /* What doesn't change the wire may differ between ranks. */
    assert_int_equal(parse_with("HETCCL_SPIN_US", "1", &other), HETCCL_OK);
    assert_true(hetccl_config_wire_hash(&plain) == hetccl_config_wire_hash(&other));
}

/* A misspelt name gets one warning with the nearest known one. */
static void test_unknown_name(void **state)
{
    char path[] = "/tmp/hetccl-config-XXXXXX";
    char text[4096] = "";
    int fd = mkstemp(path);
    struct hetccl_config config;

    assert_true(fd >= 0);
    setenv("HETCCL_DEBUG", "WARN", 1);
    setenv("HETCCL_DEBUG_FILE", path, 1);
    assert_int_equal(parse_with("HETCCL_SOKET_IFNAME", "eth0", &config), HETCCL_OK);
    unsetenv("HETCCL_DEBUG");
    unsetenv("HETCCL_DEBUG_FILE");
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "HETCCL_SOKET_IFNAME"));
    assert_non_null(strstr(text, "HETCCL_SOCKET_IFNAME"));
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: names are looked at once a process. */
        cmocka_unit_test(test_unknown_name), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_choices_and_flags),
        cmocka_unit_test(test_ports),        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_list_entries), cmocka_unit_test(test_wire_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
