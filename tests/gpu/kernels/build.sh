#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The test of the kernels on a real GPU, in two halves, as the machine with the GPU need not have clang-19:
#
#   tests/gpu/kernels/build.sh ptx FOLDER        where the library is built in build/: its images, into FOLDER
#   tests/gpu/kernels/build.sh test FOLDER OUT   with a C compiler alone: the test of FOLDER's images, OUT/kernels_test
#   tests/gpu/kernels/build.sh run FOLDER        the same in a temporary folder, and run it
set -eu
cd "$(dirname "$0")/../../.."

build_ptx() {
    ninja -C build src/kernels/kernels.ptx tests/gpu/kernels/probe.ptx
    mkdir -p "$1"
    cp build/src/kernels/kernels.ptx build/tests/gpu/kernels/probe.ptx "$1"
}

build_test() {
    mkdir -p "$2"
    python3 src/kernels/embed.py hetccl_image_ptx "$2/image_ptx.S" "$1/kernels.ptx"
    "${CC:-gcc}" -std=c17 -D_GNU_SOURCE -O2 -ffp-contract=off -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers \
        -Isrc -Itests/gpu/kernels -Itests/unit/kernels \
        src/kernels/average.c src/kernels/images.c src/kernels/reduce.c src/kernels/types.c src/kernels/variant_*.c \
        tests/unit/kernels/reference.c tests/gpu/kernels/bench.c tests/gpu/kernels/driver.c \
        tests/gpu/kernels/kernels_test.c tests/gpu/kernels/phases.c tests/gpu/kernels/probe.c \
        tests/gpu/kernels/speed.c "$2/image_ptx.S" -o "$2/kernels_test" -lpthread -lm -ldl
}

case "${1:-}:$#" in
ptx:2) build_ptx "$2" ;;
test:3) build_test "$2" "$3" ;;
run:2)
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    build_test "$2" "$out"
    "$out/kernels_test" "$2/probe.ptx"
    ;;
*)
    sed -n '4,8p' "$0" >&2
    exit 2
    ;;
esac
