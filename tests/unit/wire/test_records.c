/* SPDX-License-Identifier: Apache-2.0 */

/* Every record survives the way there and back; cut, stretched and random bytes never do more than say no. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/frame.h"
#include "wire/hello.h"
#include "wire/peer.h"
#include "wire/records.h"
#include "wire/unique_id.h"

static struct hetccl_wire_contact sample_contact(void)
{
    struct hetccl_wire_contact contact = {.process_key = 0x1122334455667788ull,
                                          .place = 0x99aabbccddeeff00ull,
                                          .pid = 4711,
                                          .n_addresses = 2,
                                          .host_name = "node-17"};

    contact.addresses[0] =
        (struct hetccl_wire_address){.family = HETCCL_WIRE_IPV4, .port = 50001, .bytes = {10, 1, 0, 2}};
    contact.addresses[1] =
        (struct hetccl_wire_address){.family = HETCCL_WIRE_IPV6, .port = 65535, .bytes = {0xfe, 0x80}};
    contact.addresses[1].bytes[15] = 9;
    return contact;
}

static void assert_same_contact(const struct hetccl_wire_contact *a, const struct hetccl_wire_contact *b)
{
    assert_int_equal(a->process_key, b->process_key);
    assert_int_equal(a->place, b->place);
    assert_int_equal(a->pid, b->pid);
    assert_int_equal(a->n_addresses, b->n_addresses);
    for (uint32_t i = 0; i < a->n_addresses; i++) {
        assert_int_equal(a->addresses[i].family, b->addresses[i].family);
        assert_int_equal(a->addresses[i].port, b->addresses[i].port);
        assert_memory_equal(a->addresses[i].bytes, b->addresses[i].bytes, 16);
    }
    assert_string_equal(a->host_name, b->host_name);
}

static void test_cursor_is_little_endian_and_bounded(void **state)
{
    uint8_t memory[9];
    struct hetccl_wire_writer writer = hetccl_wire_writer(memory, 8);
    struct hetccl_wire_reader reader;
    char text[4];

    memory[8] = 0xee;
    hetccl_wire_put_u32(&writer, 0x04030201u);
    hetccl_wire_put_u16(&writer, 0x0605u);
    assert_false(writer.is_short);
    hetccl_wire_put_u32(&writer, 0xffffffffu);
    assert_true(writer.is_short);
    hetccl_wire_put_u8(&writer, 7); /* stays short */
    assert_int_equal(memory[0], 1);
    assert_int_equal(memory[3], 4);
    assert_int_equal(memory[5], 6);
    assert_int_equal(memory[8], 0xee);

    reader = hetccl_wire_reader(memory, 6);
    assert_int_equal(hetccl_wire_get_u64(&reader), 0);
    assert_true(reader.is_short);
    assert_int_equal(hetccl_wire_get_u8(&reader), 0);
    assert_false(hetccl_wire_reader_is_done(&reader));

    reader = hetccl_wire_reader((const uint8_t *)"a\x1b%s", 4);
    hetccl_wire_get_text(&reader, text, 4);
    assert_string_equal(text, "a?%");
}

static void test_unique_id(void **state)
{
    uint8_t bytes[HETCCL_WIRE_UNIQUE_ID_BYTES];
    struct hetccl_wire_unique_id in = {.revision = 7,
                                       .is_fixed_root = true,
                                       .library_version = 0x000102,
                                       .job_id = 0xabcdefull,
                                       .place = 77,
                                       .n_addresses = 2};
    struct hetccl_wire_unique_id out;

    memset(in.key, 0x5a, sizeof(in.key));
    in.addresses[0] = sample_contact().addresses[0];
    in.addresses[1] = sample_contact().addresses[1];
    hetccl_wire_unique_id_encode(&in, bytes);
    assert_true(hetccl_wire_unique_id_decode(bytes, &out));
    assert_int_equal(out.revision, 7);
    assert_true(out.is_fixed_root);
    assert_int_equal(out.job_id, in.job_id);
    assert_int_equal(out.place, 77);
    assert_int_equal(out.n_addresses, 2);
    assert_int_equal(out.addresses[1].port, 65535);
    assert_memory_equal(out.key, in.key, sizeof(in.key));
    for (size_t i = 0; i < sizeof(bytes); i++) { /* any damaged byte is noticed */
        bytes[i] ^= 0x41;
        assert_false(hetccl_wire_unique_id_decode(bytes, &out));
        bytes[i] ^= 0x41;
    }
}

static void test_hello_and_answer(void **state)
{
    uint8_t hello_bytes[HETCCL_WIRE_HELLO_BYTES];
    uint8_t answer_bytes[HETCCL_WIRE_ANSWER_BYTES];
    struct hetccl_wire_hello in = {.revision = 3,
                                   .role = HETCCL_ROLE_STREAM,
                                   .library_version = 0x010203,
                                   .job_id = 1,
                                   .process_key = 2,
                                   .mesh_key = 3,
                                   .src_rank = 4,
                                   .dst_rank = 5,
                                   .stream_id = 6,
                                   .host_name = "there"};
    struct hetccl_wire_hello out;
    struct hetccl_wire_answer answer = {.revision = 9, .process_key = 10, .host_name = "here"};
    struct hetccl_wire_answer answer_out;
    char text[HETCCL_WIRE_VERSION_TEXT_BYTES];

    memset(in.nonce, 0x77, sizeof(in.nonce));
    hetccl_wire_hello_encode(&in, hello_bytes);
    assert_true(hetccl_wire_hello_decode(hello_bytes, &out));
    assert_int_equal(out.stream_id, 6);
    assert_int_equal(out.mesh_key, 3);
    assert_string_equal(out.host_name, "there");
    assert_memory_equal(out.nonce, in.nonce, sizeof(in.nonce));
    memset(answer.mac, 0x33, sizeof(answer.mac));
    hetccl_wire_answer_encode(&answer, answer_bytes);
    assert_true(hetccl_wire_answer_decode(answer_bytes, &answer_out));
    assert_int_equal(answer_out.revision, 9);
    assert_memory_equal(answer_out.mac, answer.mac, sizeof(answer.mac));
    assert_false(hetccl_wire_answer_decode(hello_bytes, &answer_out)); /* a reflected hello is no answer */
    hello_bytes[10] = 4;                                               /* no such role */
    assert_false(hetccl_wire_hello_decode(hello_bytes, &out));
    hetccl_wire_version_print(0x010203, 3, text);
    assert_string_equal(text, "1.2.3 (wire revision 3)");
}

static void test_frame_header(void **state)
{
    uint8_t bytes[HETCCL_WIRE_FRAME_BYTES];
    struct hetccl_wire_frame in = {.payload_bytes = 4096,
                                   .kind = 999,
                                   .round = 3,
                                   .mesh_key = 0xfedcba9876543210ull,
                                   .src_rank = 1,
                                   .dst_rank = 2,
                                   .sequence = 5};
    struct hetccl_wire_frame out;

    hetccl_wire_frame_encode(&in, bytes);
    assert_true(hetccl_wire_frame_decode(bytes, &out));
    assert_int_equal(out.mesh_key, in.mesh_key);
    assert_int_equal(out.sequence, 5);
    in.payload_bytes = 4097;
    hetccl_wire_frame_encode(&in, bytes);
    assert_false(hetccl_wire_frame_decode(bytes, &out));
    in.kind = HETCCL_FRAME_GATHER;
    in.payload_bytes = HETCCL_WIRE_LARGE_BYTES;
    hetccl_wire_frame_encode(&in, bytes);
    assert_true(hetccl_wire_frame_decode(bytes, &out));
    in.payload_bytes = UINT32_MAX;
    hetccl_wire_frame_encode(&in, bytes);
    assert_false(hetccl_wire_frame_decode(bytes, &out));
    in.payload_bytes = 0;
    in.kind = 0;
    hetccl_wire_frame_encode(&in, bytes);
    assert_false(hetccl_wire_frame_decode(bytes, &out));
    in.kind = HETCCL_FRAME_LEAVE;
    in.src_rank = UINT32_MAX;
    hetccl_wire_frame_encode(&in, bytes);
    assert_false(hetccl_wire_frame_decode(bytes, &out));
}

static void test_register_and_welcome(void **state)
{
    uint8_t bytes[HETCCL_WIRE_WELCOME_MAX_BYTES];
    struct hetccl_wire_register record = {.n_ranks = 5, .rank = 4, .contact = sample_contact()};
    struct hetccl_wire_register record_out;
    struct hetccl_wire_welcome welcome = {.mesh_key = 42, .n_neighbours = 3};
    struct hetccl_wire_welcome welcome_out;
    size_t n;

    hetccl_wire_register_encode(&record, bytes);
    assert_true(hetccl_wire_register_decode(bytes, HETCCL_WIRE_REGISTER_BYTES, &record_out));
    assert_int_equal(record_out.rank, 4);
    assert_same_contact(&record.contact, &record_out.contact);
    for (size_t cut = 0; cut < HETCCL_WIRE_REGISTER_BYTES; cut++)
        assert_false(hetccl_wire_register_decode(bytes, cut, &record_out));
    assert_false(hetccl_wire_register_decode(bytes, HETCCL_WIRE_REGISTER_BYTES + 1, &record_out));
    record.rank = 5;
    hetccl_wire_register_encode(&record, bytes);
    assert_false(hetccl_wire_register_decode(bytes, HETCCL_WIRE_REGISTER_BYTES, &record_out));
    record.rank = 0;
    record.n_ranks = 0x80000000u;
    hetccl_wire_register_encode(&record, bytes);
    assert_false(hetccl_wire_register_decode(bytes, HETCCL_WIRE_REGISTER_BYTES, &record_out));

    for (uint32_t i = 0; i < 3; i++)
        welcome.neighbours[i] = (struct hetccl_wire_neighbour){.rank = i + 7, .contact = sample_contact()};
    n = hetccl_wire_welcome_encode(&welcome, bytes);
    assert_true(hetccl_wire_welcome_decode(bytes, n, &welcome_out));
    assert_int_equal(welcome_out.mesh_key, 42);
    assert_int_equal(welcome_out.neighbours[2].rank, 9);
    assert_same_contact(&welcome.neighbours[2].contact, &welcome_out.neighbours[2].contact);
    for (size_t cut = 0; cut < n; cut++)
        assert_false(hetccl_wire_welcome_decode(bytes, cut, &welcome_out));
    bytes[8] = 200; /* claims more neighbours than there may be */
    assert_false(hetccl_wire_welcome_decode(bytes, n, &welcome_out));
}

static void test_missing_and_failure(void **state)
{
    uint8_t bytes[HETCCL_WIRE_FAILURE_BYTES];
    struct hetccl_wire_missing missing = {.n_missing = 100, .n_listed = 2, .ranks = {2, 5}};
    struct hetccl_wire_missing missing_out;
    struct hetccl_wire_failure failure = {.status = HETCCL_ERR_REMOTE, .culprit_rank = UINT32_MAX};
    struct hetccl_wire_failure failure_out;

    hetccl_wire_missing_encode(&missing, bytes);
    assert_true(hetccl_wire_missing_decode(bytes, HETCCL_WIRE_MISSING_BYTES, &missing_out));
    assert_int_equal(missing_out.n_missing, 100);
    assert_int_equal(missing_out.ranks[1], 5);
    assert_false(hetccl_wire_missing_decode(bytes, HETCCL_WIRE_MISSING_BYTES - 1, &missing_out));
    missing.n_listed = 65;
    hetccl_wire_missing_encode(&(struct hetccl_wire_missing){.n_missing = 1, .n_listed = 1}, bytes);
    bytes[4] = 65;
    assert_false(hetccl_wire_missing_decode(bytes, HETCCL_WIRE_MISSING_BYTES, &missing_out));

    memset(failure.text, 'x', sizeof(failure.text) - 1);
    hetccl_wire_failure_encode(&failure, bytes);
    assert_true(hetccl_wire_failure_decode(bytes, HETCCL_WIRE_FAILURE_BYTES, &failure_out));
    assert_int_equal(failure_out.status, HETCCL_ERR_REMOTE);
    assert_int_equal(strlen(failure_out.text), HETCCL_WIRE_FAILURE_TEXT_BYTES - 1);
    bytes[0] = HETCCL_OK; /* success is no failure */
    assert_false(hetccl_wire_failure_decode(bytes, HETCCL_WIRE_FAILURE_BYTES, &failure_out));
    bytes[0] = 200;
    assert_false(hetccl_wire_failure_decode(bytes, HETCCL_WIRE_FAILURE_BYTES, &failure_out));
}

static void test_peer(void **state)
{
    uint8_t bytes[HETCCL_WIRE_PEER_BYTES];
    struct hetccl_wire_peer in = {.host_name = "a-host",
                                  .arch = "gfx942",
                                  .host_key = 1,
                                  .shm_place = 2,
                                  .process_key = 3,
                                  .library_key = 4,
                                  .pci_key = 5,
                                  .config_hash = 6,
                                  .machine_key = 7,
                                  .library_version = 8,
                                  .link_kinds = 9,
                                  .pid = 10,
                                  .vendor = 11,
                                  .engine = 12,
                                  .device_kind = 13,
                                  .flags = 14};
    struct hetccl_wire_peer out;

    hetccl_wire_peer_encode(&in, bytes);
    assert_true(hetccl_wire_peer_decode(bytes, &out));
    assert_string_equal(out.host_name, "a-host");
    assert_string_equal(out.arch, "gfx942");
    assert_int_equal(out.host_key, 1);
    assert_int_equal(out.shm_place, 2);
    assert_int_equal(out.process_key, 3);
    assert_int_equal(out.library_key, 4);
    assert_int_equal(out.pci_key, 5);
    assert_int_equal(out.config_hash, 6);
    assert_int_equal(out.machine_key, 7);
    assert_int_equal(out.library_version, 8);
    assert_int_equal(out.link_kinds, 9);
    assert_int_equal(out.pid, 10);
    assert_int_equal(out.vendor, 11);
    assert_int_equal(out.engine, 12);
    assert_int_equal(out.device_kind, 13);
    assert_int_equal(out.flags, 14);
    bytes[0] ^= 1;
    assert_false(hetccl_wire_peer_decode(bytes, &out));
}

/* Whatever is accepted must respect its own bounds; the sanitizers watch the rest. */
static void decode_everything(const uint8_t *bytes, size_t n)
{
    static struct hetccl_wire_welcome welcome;
    struct hetccl_wire_unique_id id;
    struct hetccl_wire_hello hello;
    struct hetccl_wire_answer answer;
    struct hetccl_wire_frame frame;
    struct hetccl_wire_register record;
    struct hetccl_wire_missing missing;
    struct hetccl_wire_failure failure;
    struct hetccl_wire_peer peer;

    if (n >= HETCCL_WIRE_UNIQUE_ID_BYTES && hetccl_wire_unique_id_decode(bytes, &id))
        assert_in_range(id.n_addresses, 1, HETCCL_WIRE_MAX_ADDRESSES);
    if (n >= HETCCL_WIRE_HELLO_BYTES && hetccl_wire_hello_decode(bytes, &hello))
        assert_in_range(hello.role, HETCCL_ROLE_REGISTER, HETCCL_ROLE_STREAM);
    if (n >= HETCCL_WIRE_ANSWER_BYTES && hetccl_wire_answer_decode(bytes, &answer))
        assert_in_range(answer.verdict, 0, 1);
    if (n >= HETCCL_WIRE_FRAME_BYTES && hetccl_wire_frame_decode(bytes, &frame))
        assert_in_range(frame.payload_bytes, 0, HETCCL_WIRE_LARGE_BYTES);
    if (hetccl_wire_register_decode(bytes, n, &record))
        assert_true(record.rank < record.n_ranks && record.contact.host_name[63] == '\0');
    if (hetccl_wire_welcome_decode(bytes, n, &welcome))
        assert_in_range(welcome.n_neighbours, 0, HETCCL_WIRE_MAX_NEIGHBOURS);
    if (hetccl_wire_missing_decode(bytes, n, &missing))
        assert_in_range(missing.n_listed, 0, HETCCL_WIRE_MAX_MISSING);
    if (hetccl_wire_failure_decode(bytes, n, &failure))
        assert_true(failure.status > HETCCL_AGAIN && strlen(failure.text) < sizeof(failure.text));
    if (n >= HETCCL_WIRE_PEER_BYTES && hetccl_wire_peer_decode(bytes, &peer))
        assert_true(strlen(peer.host_name) < sizeof(peer.host_name));
}

static void test_random_and_mutated_bytes(void **state)
{
    enum { ROUNDS = 100000, LONGEST = 1024 };
    struct hetccl_wire_register record = {.n_ranks = 5, .rank = 4, .contact = sample_contact()};
    uint64_t seed = 1;

    for (int round = 0; round < ROUNDS; round++) {
        size_t n;
        uint8_t *bytes;

        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        n = round % 2 == 0 ? (seed >> 33) % LONGEST : (size_t)HETCCL_WIRE_REGISTER_BYTES;
        bytes = malloc(n > 0 ? n : 1); /* exact, so that ASan sees a read beyond the end */
        if (round % 2 == 0) {
            for (size_t i = 0; i < n; i++) {
                seed = seed * 6364136223846793005ull + 1442695040888963407ull;
                bytes[i] = (uint8_t)(seed >> 40);
            }
        } else {
            hetccl_wire_register_encode(&record, bytes);
            bytes[(seed >> 20) % n] = (uint8_t)(seed >> 50);
        }
        decode_everything(bytes, n);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cursor_is_little_endian_and_bounded),
        cmocka_unit_test(test_unique_id),
        cmocka_unit_test(test_hello_and_answer),
        cmocka_unit_test(test_frame_header),
        cmocka_unit_test(test_register_and_welcome),
        cmocka_unit_test(test_missing_and_failure),
        cmocka_unit_test(test_peer),
        cmocka_unit_test(test_random_and_mutated_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
