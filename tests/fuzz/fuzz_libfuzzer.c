// SPDX-License-Identifier: Apache-2.0
// One target of libFuzzer, for the format that FUZZ_FORMAT names: tools/fuzz builds and runs them. What an
// input is compiled for follows from its bytes, so that what was found is repeated by the bytes alone.
#include "base/map.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static const Format *find_format(void)
{
    static const Format *format;
    if (!format)
        format = format_find(FUZZ_FORMAT);
    return format;
}

// Readers promise to stay within the bytes that they are given: these have no room behind them.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *sink;
    static Arena arena;
    if (!sink)
        sink = fopen("/dev/null", "w");
    if (!sink || size > INPUT_CAP)
        return -1;
    const Bytes in = {arena_copy(&arena, data, size), size};
    fuzz_try(find_format(), &arena, &in, hash_bytes64(data, size, 0), sink);
    arena_free(&arena);
    return 0;
}

// For formats that know better what to change, libFuzzer still makes one change of four.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static unsigned char buffer[INPUT_CAP];
    const Format *f = find_format();
    Bytes b = {buffer, size};
    random_start(seed);
    if (size > INPUT_CAP || max_size > INPUT_CAP)
        return LLVMFuzzerMutate(data, size, max_size);
    memcpy(buffer, data, size);
    const Bytes self = {data, size};
    const size_t kind = pick(4);
    if (!(f->mutate && kind != 0 && f->mutate(&b, &self, 1)) && kind < 3)
        b.len = LLVMFuzzerMutate(buffer, size, max_size);
    else if (!f->mutate)
        bytes_mutate(&b, f, &self, 1);
    if (f->seal)
        f->seal(&b, random_bits());
    if (b.len > max_size)
        b.len = max_size;
    memcpy(data, buffer, b.len);
    return b.len;
}
