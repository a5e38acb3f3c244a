/* SPDX-License-Identifier: Apache-2.0 */
#include "run_elf.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No table of a sound file is larger; a broken one doesn't make us allocate more. */
enum { MAX_TABLE_BYTES = 64 << 20 };

/* The head of a file and its program headers. */
struct head {
    int fd;
    ElfW(Ehdr) elf;
    ElfW(Phdr) * segments; /* elf.e_phnum of them; NULL when the file isn't native */
};

static bool read_at(int fd, uint64_t offset, void *out, size_t bytes)
{
    char *to = out;

    while (bytes > 0) {
        ssize_t n = pread(fd, to, bytes, (off_t)offset);

        if (n <= 0)
            return false;
        to += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

/* A part of the file in memory of its own; NULL when it isn't there. */
static void *read_table(int fd, uint64_t offset, uint64_t bytes)
{
    void *table;

    if (bytes == 0 || bytes > MAX_TABLE_BYTES)
        return NULL;
    table = malloc(bytes);
    if (table != NULL && read_at(fd, offset, table, bytes))
        return table;
    free(table);
    return NULL;
}

/* Class, byte order and machine of the code that this is. */
static struct hetccl_elf describe_self(void)
{
    struct hetccl_elf self = {0};
    ElfW(Ehdr) head;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read_at(fd, 0, &head, sizeof(head))) {
        self.class_of = head.e_ident[EI_CLASS];
        self.byte_order = head.e_ident[EI_DATA];
        self.machine = head.e_machine;
    }
    if (fd >= 0)
        (void)close(fd);
    return self;
}

bool hetccl_elf_is_native(const struct hetccl_elf *elf)
{
    struct hetccl_elf self = describe_self();

    return elf->class_of == self.class_of && elf->byte_order == self.byte_order &&
           elf->machine == self.machine;
}

static bool open_head(const char *path, struct head *out)
{
    struct head head = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct hetccl_elf kind = {0};

    if (head.fd < 0)
        return false;
    /* The identification and e_machine lie alike in all classes. */
    if (!read_at(head.fd, 0, &head.elf, offsetof(ElfW(Ehdr), e_version)) ||
        memcmp(head.elf.e_ident, ELFMAG, SELFMAG) != 0) {
        (void)close(head.fd);
        return false;
    }
    kind.class_of = head.elf.e_ident[EI_CLASS];
    kind.byte_order = head.elf.e_ident[EI_DATA];
    kind.machine = head.elf.e_machine;
    if (hetccl_elf_is_native(&kind) && read_at(head.fd, 0, &head.elf, sizeof(head.elf)) &&
        head.elf.e_phentsize == sizeof(*head.segments))
        head.segments =
            read_table(head.fd, head.elf.e_phoff, (uint64_t)head.elf.e_phnum * sizeof(*head.segments));
    *out = head;
    return true;
}

static void close_head(struct head *head)
{
    free(head->segments);
    (void)close(head->fd);
}

static const ElfW(Phdr) * find_segment(const struct head *head, uint32_t type)
{
    for (size_t i = 0; head->segments != NULL && i < head->elf.e_phnum; i++)
        if (head->segments[i].p_type == type)
            return &head->segments[i];
    return NULL;
}

bool hetccl_elf_read(const char *path, struct hetccl_elf *out)
{
    struct hetccl_elf elf = {0};
    const ElfW(Phdr) * interpreter;
    struct head head;

    if (!open_head(path, &head))
        return false;
    elf.class_of = head.elf.e_ident[EI_CLASS];
    elf.byte_order = head.elf.e_ident[EI_DATA];
    elf.machine = head.elf.e_machine;
    interpreter = find_segment(&head, PT_INTERP);
    elf.has_interpreter = interpreter != NULL;
    if (interpreter != NULL && interpreter->p_filesz < sizeof(elf.interpreter) &&
        !read_at(head.fd, interpreter->p_offset, elf.interpreter, interpreter->p_filesz))
        elf.interpreter[0] = '\0';
    close_head(&head);
    *out = elf;
    return true;
}

/* Where an address of the loaded library lies in the file; 0: in none of its segments. */
static uint64_t offset_of(const struct head *head, uint64_t address)
{
    for (size_t i = 0; i < head->elf.e_phnum; i++) {
        const ElfW(Phdr) *segment = &head->segments[i];

        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz)
            return address - segment->p_vaddr + segment->p_offset;
    }
    return 0;
}

/* The dynamic string table, in memory of the caller's; NULL: none. */
static char *read_strings(const struct head *head, uint64_t *bytes_out)
{
    const ElfW(Phdr) *segment = find_segment(head, PT_DYNAMIC);
    uint64_t address = 0;
    uint64_t bytes = 0;
    ElfW(Dyn) * entries;

    entries = segment != NULL ? read_table(head->fd, segment->p_offset, segment->p_filesz) : NULL;
    if (entries == NULL)
        return NULL;
    for (size_t i = 0; i < segment->p_filesz / sizeof(*entries) && entries[i].d_tag != DT_NULL; i++) {
        if (entries[i].d_tag == DT_STRTAB)
            address = entries[i].d_un.d_ptr;
        if (entries[i].d_tag == DT_STRSZ)
            bytes = entries[i].d_un.d_val;
    }
    free(entries);
    *bytes_out = bytes;
    return read_table(head->fd, offset_of(head, address), bytes);
}

bool hetccl_elf_has_name(const char *path, const char *name)
{
    bool is_there = false;
    uint64_t bytes = 0;
    struct head head;
    char *strings;

    if (!open_head(path, &head))
        return false;
    strings = read_strings(&head, &bytes);
    if (strings != NULL)
        is_there = memmem(strings, bytes, name, strlen(name) + 1) != NULL;
    free(strings);
    close_head(&head);
    return is_there;
}
