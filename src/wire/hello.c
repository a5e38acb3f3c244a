/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/hello.h"

#include <stdio.h>
#include <string.h>

enum { MAGIC_BYTES = 8 };

/* Two magics: a socket that got connected to itself must not take its own hello for an answer. */
static const uint8_t hello_magic[MAGIC_BYTES] = {'H', 'e', 't', 'C', 'C', 'L', '\n', 0x01};
static const uint8_t answer_magic[MAGIC_BYTES] = {'H', 'e', 't', 'C', 'C', 'L', '\n', 0x02};

void hetccl_wire_hello_encode(const struct hetccl_wire_hello *hello, uint8_t out[HETCCL_WIRE_HELLO_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_HELLO_BYTES);

    hetccl_wire_put_bytes(&writer, hello_magic, sizeof(hello_magic));
    hetccl_wire_put_u16(&writer, hello->revision);
    hetccl_wire_put_u16(&writer, hello->role);
    hetccl_wire_put_u32(&writer, hello->library_version);
    hetccl_wire_put_u64(&writer, hello->job_id);
    hetccl_wire_put_u64(&writer, hello->process_key);
    hetccl_wire_put_u64(&writer, hello->mesh_key);
    hetccl_wire_put_u32(&writer, hello->src_rank);
    hetccl_wire_put_u32(&writer, hello->dst_rank);
    hetccl_wire_put_u32(&writer, hello->stream_id);
    hetccl_wire_put_u32(&writer, 0);
    hetccl_wire_put_text(&writer, hello->host_name, sizeof(hello->host_name));
    hetccl_wire_put_bytes(&writer, hello->nonce, sizeof(hello->nonce));
}

bool hetccl_wire_hello_decode(const uint8_t in[HETCCL_WIRE_HELLO_BYTES], struct hetccl_wire_hello *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, HETCCL_WIRE_HELLO_BYTES);
    struct hetccl_wire_hello hello;
    uint8_t magic[MAGIC_BYTES];

    memset(&hello, 0, sizeof(hello));
    hetccl_wire_get_bytes(&reader, magic, sizeof(magic));
    hello.revision = hetccl_wire_get_u16(&reader);
    hello.role = hetccl_wire_get_u16(&reader);
    hello.library_version = hetccl_wire_get_u32(&reader);
    hello.job_id = hetccl_wire_get_u64(&reader);
    hello.process_key = hetccl_wire_get_u64(&reader);
    hello.mesh_key = hetccl_wire_get_u64(&reader);
    hello.src_rank = hetccl_wire_get_u32(&reader);
    hello.dst_rank = hetccl_wire_get_u32(&reader);
    hello.stream_id = hetccl_wire_get_u32(&reader);
    (void)hetccl_wire_get_u32(&reader);
    hetccl_wire_get_text(&reader, hello.host_name, sizeof(hello.host_name));
    hetccl_wire_get_bytes(&reader, hello.nonce, sizeof(hello.nonce));
    if (!hetccl_wire_reader_is_done(&reader) || memcmp(magic, hello_magic, sizeof(magic)) != 0)
        return false;
    if (hello.role < HETCCL_ROLE_REGISTER || hello.role > HETCCL_ROLE_STREAM)
        return false;
    *out = hello;
    return true;
}

void hetccl_wire_answer_encode(const struct hetccl_wire_answer *answer, uint8_t out[HETCCL_WIRE_ANSWER_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_ANSWER_BYTES);

    hetccl_wire_put_bytes(&writer, answer_magic, sizeof(answer_magic));
    hetccl_wire_put_u16(&writer, answer->revision);
    hetccl_wire_put_u16(&writer, answer->verdict);
    hetccl_wire_put_u32(&writer, answer->library_version);
    hetccl_wire_put_u64(&writer, answer->process_key);
    hetccl_wire_put_text(&writer, answer->host_name, sizeof(answer->host_name));
    hetccl_wire_put_bytes(&writer, answer->nonce, sizeof(answer->nonce));
    hetccl_wire_put_bytes(&writer, answer->mac, sizeof(answer->mac));
}

bool hetccl_wire_answer_decode(const uint8_t in[HETCCL_WIRE_ANSWER_BYTES], struct hetccl_wire_answer *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, HETCCL_WIRE_ANSWER_BYTES);
    struct hetccl_wire_answer answer;
    uint8_t magic[MAGIC_BYTES];

    memset(&answer, 0, sizeof(answer));
    hetccl_wire_get_bytes(&reader, magic, sizeof(magic));
    answer.revision = hetccl_wire_get_u16(&reader);
    answer.verdict = hetccl_wire_get_u16(&reader);
    answer.library_version = hetccl_wire_get_u32(&reader);
    answer.process_key = hetccl_wire_get_u64(&reader);
    hetccl_wire_get_text(&reader, answer.host_name, sizeof(answer.host_name));
    hetccl_wire_get_bytes(&reader, answer.nonce, sizeof(answer.nonce));
    hetccl_wire_get_bytes(&reader, answer.mac, sizeof(answer.mac));
    if (!hetccl_wire_reader_is_done(&reader) || memcmp(magic, answer_magic, sizeof(magic)) != 0)
        return false;
    if (answer.verdict > HETCCL_VERDICT_UNKNOWN_JOB)
        return false;
    *out = answer;
    return true;
}

void hetccl_wire_version_print(uint32_t library_version, uint16_t revision,
                               char out[HETCCL_WIRE_VERSION_TEXT_BYTES])
{
    (void)snprintf(out, HETCCL_WIRE_VERSION_TEXT_BYTES, "%u.%u.%u (wire revision %u)", library_version >> 16,
                   library_version >> 8 & 0xff, library_version & 0xff, revision);
}
