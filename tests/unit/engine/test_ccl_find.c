/* SPDX-License-Identifier: Apache-2.0 */

/* Finding and opening the vendor's library. Arguments: the fake one, the fake of 2.18, HetCCL's own, the fake
 * driver. */

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/ccl/find.h"
#include "engine/ccl/table.h"

static const char *fake, *old_fake, *own, *driver;

static void expect_refusal(const char *path, const char *words)
{
    struct hetccl_ccl_api api = {.version = -1};

    assert_int_equal(hetccl_ccl_open(HETCCL_CCL_NCCL, path, &api), HETCCL_ERR_USAGE);
    assert_int_equal(api.version, -1);
    if (strstr(hetccl_last_error_thread(), words) == NULL)
        fail_msg("'%s' isn't in: %s", words, hetccl_last_error_thread());
    if (strstr(hetccl_last_error_thread(), path) == NULL)
        fail_msg("'%s' isn't in: %s", path, hetccl_last_error_thread());
}

static void a_new_library_has_everything(void **state)
{
    struct hetccl_ccl_api api;

    assert_int_equal(hetccl_ccl_open(HETCCL_CCL_NCCL, fake, &api), HETCCL_OK);
    assert_string_equal(api.name, "NCCL");
    assert_string_equal(api.path, fake);
    assert_int_equal(api.version, 22807);
    assert_non_null(api.ncclAllReduce);
    assert_non_null(api.ncclAllReduceConfig);
    assert_non_null(api.ncclParamDumpAll);
    assert_non_null(api.ncclTeamRankToLsa);
}

static void an_old_library_lacks_what_came_later(void **state)
{
    struct hetccl_ccl_api api;

    (void)setenv("FAKE_NCCL_VERSION", "21805", 1);
    assert_int_equal(hetccl_ccl_open(HETCCL_CCL_NCCL, old_fake, &api), HETCCL_OK);
    assert_int_equal(api.version, 21805);
    assert_non_null(api.ncclCommSplit);
    assert_null(api.ncclCommShrink);
    assert_null(api.ncclMemAlloc);
    assert_null(api.ncclAlltoAll);
    (void)setenv("FAKE_NCCL_VERSION", "21703", 1);
    expect_refusal(old_fake, "2.18 or newer");
    (void)unsetenv("FAKE_NCCL_VERSION");
}

static void others_are_refused(void **state)
{
    expect_refusal("/nowhere/libnccl.so.2", "cannot open");
    expect_refusal(driver, "has no ncclGetVersion");
    expect_refusal(own, "copy of HetCCL");
    expect_refusal("/proc/self/exe", "is this library itself");
}

static void a_named_library_is_the_only_one(void **state)
{
    struct hetccl_config config = {.nccl_lib = "/nowhere/libnccl.so.2"};
    struct hetccl_ccl_api api;

    assert_int_equal(hetccl_ccl_find(HETCCL_CCL_NCCL, &config, &api), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "HETCCL_NCCL_LIB. Tried: /nowhere/libnccl.so.2"));
    assert_null(strstr(hetccl_last_error_thread(), ";  "));
    (void)snprintf(config.nccl_lib, sizeof(config.nccl_lib), "libnccl.so.2");
    assert_int_equal(hetccl_ccl_find(HETCCL_CCL_NCCL, &config, &api), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "absolute path"));
    (void)snprintf(config.nccl_lib, sizeof(config.nccl_lib), "%s", fake);
    assert_int_equal(hetccl_ccl_find(HETCCL_CCL_NCCL, &config, &api), HETCCL_OK);
    assert_string_equal(api.path, fake);
}

/* A folder below a temporary one, with parents. */
static void make_folder(char *out, const char *root, const char *below)
{
    (void)snprintf(out, PATH_MAX, "%s%s", root, below);
    for (char *slash = out + strlen(root); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(out, 0700);
        *slash = '/';
    }
    (void)mkdir(out, 0700);
}

static void link_into(const char *folder, const char *name, const char *target)
{
    char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

static void expect_found(const char *folder, const char *rest)
{
    struct hetccl_config config = {.nccl_lib = ""};
    char path[PATH_MAX + 64];
    struct hetccl_ccl_api api;

    if (hetccl_ccl_find(HETCCL_CCL_NCCL, &config, &api) != HETCCL_OK)
        fail_msg("%s", hetccl_last_error_thread());
    (void)snprintf(path, sizeof(path), "%s%s", folder, rest);
    assert_string_equal(api.path, path);
}

static void remove_all(const char *root)
{
    char command[PATH_MAX + 16];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void the_library_path_is_searched(void **state)
{
    char root[] = "/tmp/hetccl-find-XXXXXX", folder[PATH_MAX], other[PATH_MAX], list[3 * PATH_MAX];

    assert_non_null(mkdtemp(root));
    make_folder(other, root, "/own");
    link_into(other, "libnccl.so.2", own);
    make_folder(folder, root, "/vendor/lib");
    link_into(folder, "libnccl.so.2", fake);
    (void)snprintf(list, sizeof(list), ":relative:%s/empty:%s:%s", root, other, folder);
    (void)setenv("LD_LIBRARY_PATH", list, 1);
    expect_found(folder, "/libnccl.so.2");
    (void)unsetenv("LD_LIBRARY_PATH");
    remove_all(root);
}

static void pytorchs_library_comes_first(void **state)
{
    char root[] = "/tmp/hetccl-find-XXXXXX", torch[PATH_MAX], wheel[PATH_MAX], path[PATH_MAX + 32];
    void *library;

    assert_non_null(mkdtemp(root));
    make_folder(torch, root, "/torch/lib");
    (void)snprintf(path, sizeof(path), "cp '%s' '%s/libtorch_cuda.so'", driver, torch);
    assert_int_equal(system(path), 0);
    (void)snprintf(path, sizeof(path), "%s/libtorch_cuda.so", torch);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    make_folder(wheel, root, "/nvidia/nccl/lib");
    /* HetCCL has taken the place of the library, which was put aside. */
    link_into(wheel, "libnccl.so.2", own);
    link_into(wheel, "libnccl.so.2.real", fake);
    expect_found(torch, "/../../nvidia/nccl/lib/libnccl.so.2.real");
    /* As later wheels have it. The loader would take another file of the same name for the one it has opened.
     */
    (void)snprintf(path, sizeof(path), "%s/libnccl.so.2.real", wheel);
    assert_int_equal(unlink(path), 0);
    make_folder(wheel, root, "/nvidia/cu13/lib");
    link_into(wheel, "libnccl.so.2", fake);
    expect_found(torch, "/../../nvidia/cu13/lib/libnccl.so.2");
    (void)dlclose(library);
    remove_all(root);
}

static void a_process_opens_it_once(void **state)
{
    struct hetccl_config config = {.nccl_lib = ""};
    const struct hetccl_ccl_api *first = NULL, *second = NULL;

    assert_null(hetccl_ccl_loaded(HETCCL_CCL_NCCL));
    (void)snprintf(config.nccl_lib, sizeof(config.nccl_lib), "%s", fake);
    assert_int_equal(hetccl_ccl_get(HETCCL_CCL_NCCL, &config, &first), HETCCL_OK);
    (void)snprintf(config.nccl_lib, sizeof(config.nccl_lib), "/nowhere");
    assert_int_equal(hetccl_ccl_get(HETCCL_CCL_NCCL, &config, &second), HETCCL_OK);
    assert_ptr_equal(first, second);
    assert_ptr_equal(first, hetccl_ccl_loaded(HETCCL_CCL_NCCL));
    /* And remembers that it wasn't found. */
    (void)snprintf(config.rccl_lib, sizeof(config.rccl_lib), "/nowhere/librccl.so.1");
    assert_int_equal(hetccl_ccl_get(HETCCL_CCL_RCCL, &config, &second), HETCCL_ERR_USAGE);
    (void)snprintf(config.rccl_lib, sizeof(config.rccl_lib), "%s", fake);
    assert_int_equal(hetccl_ccl_get(HETCCL_CCL_RCCL, &config, &second), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "/nowhere/librccl.so.1"));
    assert_null(hetccl_ccl_loaded(HETCCL_CCL_RCCL));
}

static void codes_become_statuses(void **state)
{
    struct hetccl_ccl_api api;

    assert_int_equal(hetccl_ccl_status(0), HETCCL_OK);
    assert_int_equal(hetccl_ccl_status(5), HETCCL_ERR_USAGE);
    assert_int_equal(hetccl_ccl_status(7), HETCCL_AGAIN);
    assert_int_equal(hetccl_ccl_status(8), HETCCL_ERR_TIMEOUT);
    assert_int_equal(hetccl_ccl_status(77), HETCCL_ERR_INTERNAL);
    assert_int_equal(hetccl_ccl_open(HETCCL_CCL_NCCL, fake, &api), HETCCL_OK);
    assert_int_equal(hetccl_ccl_check(&api, 0, "ncclSend"), HETCCL_OK);
    assert_int_equal(api.ncclSend(NULL, 1, 7, 0, NULL, NULL), 4);
    assert_int_equal(hetccl_ccl_check(&api, 4, "ncclSend"), HETCCL_ERR_ARG);
    assert_non_null(strstr(hetccl_last_error_thread(), "NCCL ncclSend: error 4"));
    assert_non_null(strstr(hetccl_last_error_thread(), "no communicator"));
}

/* With one argument: a real library, which only has to load and say what it is. */
static int check_real(const char *path)
{
    struct hetccl_ccl_api api;

    if (hetccl_ccl_open(HETCCL_CCL_NCCL, path, &api) != HETCCL_OK) {
        (void)printf("%s\n", hetccl_last_error_thread());
        return 1;
    }
    (void)printf("%s: version %d\n", api.path, api.version);
    if (api.version >= 22803 &&
        (api.ncclAlltoAll == NULL || api.ncclCommWindowRegister == NULL || api.ncclTeamLsa == NULL))
        return 1;
    return api.version >= 21800 && strcmp(api.ncclGetErrorString(5), "") != 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_library_has_everything),
        cmocka_unit_test(an_old_library_lacks_what_came_later),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(a_named_library_is_the_only_one),
        cmocka_unit_test(the_library_path_is_searched),
        cmocka_unit_test(pytorchs_library_comes_first),
        cmocka_unit_test(a_process_opens_it_once),
        cmocka_unit_test(codes_become_statuses),
    };

    if (argc == 2)
        return check_real(argv[1]);
    if (argc != 5)
        return 2;
    fake = argv[1], old_fake = argv[2], own = argv[3], driver = argv[4];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
