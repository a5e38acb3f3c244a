/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the path of the library that serves ncclGetVersion: linked like torch, to a libnccl.so.2 of the
 * vendor's with DT_RPATH; or opened by name like vLLM with the argument "dlopen". Then the other arguments.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int ncclGetVersion(int *version);

int main(int argc, char **argv)
{
    void *symbol = dlsym(RTLD_DEFAULT, "ncclGetVersion");
    int version = 0;
    Dl_info facts;

    if (argc > 1 && strcmp(argv[1], "dlopen") == 0) {
        void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

        symbol = library != NULL ? dlsym(library, "ncclGetVersion") : NULL;
    }
    if (symbol == NULL || dladdr(symbol, &facts) == 0 || ncclGetVersion(&version) != 0)
        return 1;
    printf("%s\n", facts.dli_fname);
    for (int i = 1; i < argc; i++)
        printf("%s\n", argv[i]);
    return 0;
}
