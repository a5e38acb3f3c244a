/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_RUN_ELF_H
#define HETCCL_TOOLS_RUN_ELF_H

/* What the head of a file says about whether a library of ours can be loaded into it. */

#include <stdbool.h>
#include <stdint.h>

struct hetccl_elf {
    unsigned char class_of, byte_order; /* ELFCLASS64, ELFDATA2LSB ... */
    uint16_t machine;                   /* EM_X86_64 ... */
    bool has_interpreter;               /* a dynamic loader starts it */
    char interpreter[128];              /* its path; "" without one, or when that is longer */
};

/* False when the file can't be read or isn't ELF. Interpreter fields only where is_native holds. */
bool hetccl_elf_read(const char *path, struct hetccl_elf *out);

/* Of the class, byte order and machine of this program. */
bool hetccl_elf_is_native(const struct hetccl_elf *elf);

/* True when a native library's dynamic string table has the name: it defines or uses such a symbol. */
bool hetccl_elf_has_name(const char *path, const char *name);

#endif
