/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

bool hetccl_words_read_size(const char *text, size_t *out)
{
    unsigned long long value;
    unsigned shift = 0;
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    switch (toupper((unsigned char)*end)) {
    case 'G':
        shift += 10;
        /* fall through */
    case 'M':
        shift += 10;
        /* fall through */
    case 'K':
        shift += 10;
        end++;
        break;
    default:
        break;
    }
    if (*end != '\0' || value > (SIZE_MAX >> 1) >> shift)
        return false;
    *out = (size_t)value << shift;
    return true;
}

bool hetccl_words_read_number(const char *text, long min, long max, long *out)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
        return false;
    *out = value;
    return true;
}

int hetccl_words_find_collective(const char *text)
{
    char plain[32];
    size_t length = 0;

    for (; *text != '\0' && length + 1 < sizeof(plain); text++)
        if (*text != '_' && *text != '-')
            plain[length++] = (char)tolower((unsigned char)*text);
    plain[length] = '\0';
    return *text == '\0' ? hetccl_trial_find(plain) : -1;
}

int hetccl_words_refuse(const char *command, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\n')
            *c = ' ';
    (void)fprintf(stderr, "hetccl %s: %s\n", command, text);
    return HETCCL_EXIT_USAGE;
}
