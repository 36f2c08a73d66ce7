// SPDX-License-Identifier: Apache-2.0
// Object files with one block of bytes: a second reader of ELF, Mach-O and COFF finds the block and its
// symbol again, also where the block is larger than 4 GB (only what is around it is made, so that costs
// nothing); and the way weights go into a program by their size.
#include "codegen/host/host_parts.h"
#include "codegen/host/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka.h needs the ones above.
#include <cmocka.h>

static Arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

// --- a file whose block is not in memory ---------------------------------------------------------

typedef struct File {
    ObjectText text;
    uint64_t n; // of the block
} File;

static uint64_t file_bytes(const File *f)
{
    return f->text.before.len + f->n + f->text.behind.len;
}

// A little-endian number; its bytes must not be of the block.
static uint64_t number(const File *f, uint64_t at, uint32_t bytes)
{
    const uint64_t begin = f->text.before.len + f->n;
    const bool is_before = at + bytes <= f->text.before.len;
    assert_true(is_before || (at >= begin && at + bytes <= file_bytes(f)));
    const unsigned char *p = is_before ? (const unsigned char *)f->text.before.data + at
                                       : (const unsigned char *)f->text.behind.data + (at - begin);
    uint64_t v = 0;
    for (uint32_t i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static const char *string(const File *f, uint64_t at)
{
    const uint64_t begin = f->text.before.len + f->n;
    assert_true(at >= begin && at < file_bytes(f));
    const char *s = (const char *)f->text.behind.data + (at - begin);
    assert_non_null(memchr(s, '\0', (size_t)(file_bytes(f) - at)));
    return s;
}

// What a linker needs: where the block is, and a symbol that stands for its first byte.
typedef struct Found {
    uint64_t offset, bytes, value;
    const char *symbol, *section;
} Found;

static Found read_elf(const File *f, uint32_t word)
{
    const bool is_64 = word == 8;
    const uint64_t header = is_64 ? 64 : 40, table = number(f, is_64 ? 40 : 32, word);
    const uint64_t link_at = is_64 ? 40 : 24;
    Found out = {0};
    assert_int_equal(number(f, 0, 4), 0x464c457f);
    assert_int_equal(number(f, 4, 1), word / 4); // class
    assert_int_equal(number(f, 16, 2), 1);       // relocatable
    const uint64_t n = number(f, is_64 ? 60 : 48, 2), names = number(f, is_64 ? 62 : 50, 2);
    assert_int_equal(table % 8, 0);
    assert_int_equal(table + n * header, file_bytes(f));
    const uint64_t names_at = number(f, table + names * header + (is_64 ? 24 : 16), word);
    for (uint64_t i = 1; i < n; i++) {
        const uint64_t at = table + i * header, type = number(f, at + 4, 4);
        const uint64_t offset = number(f, at + (is_64 ? 24 : 16), word);
        if (type == 1 && out.section == NULL) {
            out.section = string(f, names_at + number(f, at, 4));
            out.offset = offset;
            out.bytes = number(f, at + (is_64 ? 32 : 20), word);
        }
        if (type != 2)
            continue;
        const uint64_t symbol = offset + (is_64 ? 24 : 16);
        const uint64_t strings = table + number(f, at + link_at, 4) * header;
        out.symbol = string(f, number(f, strings + (is_64 ? 24 : 16), word) + number(f, symbol, 4));
        out.value = number(f, symbol + (is_64 ? 8 : 4), word);
        assert_int_equal(number(f, symbol + (is_64 ? 16 : 8), word), f->n);
    }
    return out;
}

static Found read_elf64(const File *f)
{
    return read_elf(f, 8);
}

static Found read_elf32(const File *f)
{
    return read_elf(f, 4);
}

static Found read_macho(const File *f)
{
    Found out = {0};
    uint64_t at = 32;
    assert_int_equal(number(f, 0, 4), 0xfeedfacf);
    for (uint64_t i = 0; i < number(f, 16, 4); i++) {
        const uint64_t command = number(f, at, 4);
        if (command == 0x19) {
            out.section = "__const";
            out.offset = number(f, at + 72 + 48, 4);
            out.bytes = number(f, at + 72 + 40, 8);
        } else if (command == 2) {
            const uint64_t symbols = number(f, at + 8, 4), strings = number(f, at + 16, 4);
            assert_int_equal(strings + number(f, at + 20, 4), file_bytes(f));
            out.symbol = string(f, strings + number(f, symbols, 4));
            out.value = number(f, symbols + 8, 8);
        }
        at += number(f, at + 4, 4);
    }
    assert_int_equal(at, 32 + number(f, 20, 4));
    return out;
}

static Found read_coff(const File *f)
{
    const uint64_t symbols = number(f, 8, 4), strings = symbols + 18 * number(f, 12, 4);
    assert_int_equal(number(f, 2, 2), 1); // sections
    assert_int_equal(strings + number(f, strings, 4), file_bytes(f));
    assert_int_equal(number(f, symbols, 4), 0); // a long name
    return (Found){.section = ".rdata",
                   .offset = number(f, 20 + 20, 4),
                   .bytes = number(f, 20 + 16, 4),
                   .symbol = string(f, strings + number(f, symbols + 4, 4)),
                   .value = number(f, symbols + 8, 4)};
}

typedef struct Case {
    const char *format, *symbol;
    Found (*read)(const File *f);
} Case;

static const Case cases[] = {
    {"elf-x86-64", "kws_weights_data", read_elf64},    {"elf-aarch64", "kws_weights_data", read_elf64},
    {"elf-riscv64", "kws_weights_data", read_elf64},   {"elf-arm", "kws_weights_data", read_elf32},
    {"elf-i386", "kws_weights_data", read_elf32},      {"macho-arm64", "_kws_weights_data", read_macho},
    {"macho-x86-64", "_kws_weights_data", read_macho}, {"macho-arm64-ios", "_kws_weights_data", read_macho},
    {"coff-x86-64", "kws_weights_data", read_coff},    {"coff-arm64", "kws_weights_data", read_coff},
    {"coff-i386", "_kws_weights_data", read_coff},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void check(const Case *c, uint64_t n)
{
    const ObjectFormat *format = object_find(c->format);
    assert_non_null(format);
    if (n > object_most_bytes(format))
        return;
    const File f = {object_text(&arena, format, "kws_weights_data", n), n};
    const Found found = c->read(&f);
    assert_int_equal(found.offset, f.text.before.len);
    assert_int_equal(found.offset % 64, 0);
    assert_int_equal(found.bytes, n);
    assert_int_equal(found.value, 0);
    assert_string_equal(found.symbol, c->symbol);
    const bool is_far = strcmp(c->format, "elf-x86-64") == 0 && n > HOST_NEAR_MAX_BYTES;
    if (c->read == read_elf64 || c->read == read_elf32)
        assert_string_equal(found.section, is_far ? ".lrodata" : ".rodata");
}

static void test_blocks_of_all_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 7, 8, 63, 64, 65, 4096, 1 << 20, INT32_MAX - (1 << 16), 1ull << 31,
                                     (1ull << 31) + 8, 1ull << 32, (1ull << 32) + 1, 5000000000, 1ull << 40};
    for (size_t i = 0; i < N_CASES; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            check(&cases[i], sizes[k]);
}

static void test_every_format_has_a_case(void **state)
{
    (void)state;
    const char *names = object_names(&arena);
    size_t n = 1;
    for (const char *c = names; *c != '\0'; c++)
        n += *c == ',';
    assert_int_equal(n, N_CASES);
    assert_null(object_find("a.out"));
    assert_non_null(object_find(NULL)); // of this machine
}

static void test_formats_of_32_bits_have_a_limit(void **state)
{
    (void)state;
    assert_true(object_most_bytes(object_find("elf-x86-64")) > 1ull << 40);
    assert_true(object_most_bytes(object_find("elf-arm")) < 1ull << 31);
    assert_true(object_most_bytes(object_find("coff-x86-64")) < 1ull << 31);
    assert_true(object_most_bytes(object_find("macho-arm64")) < 1ull << 31);
}

static void test_weights_go_where_their_size_lets_them(void **state)
{
    (void)state;
    assert_int_equal(host_auto_weights(0), WEIGHTS_RODATA);
    assert_int_equal(host_auto_weights(64 << 10), WEIGHTS_RODATA);
    assert_int_equal(host_auto_weights((64 << 10) + 1), WEIGHTS_INCBIN);
    assert_int_equal(host_auto_weights(1 << 30), WEIGHTS_INCBIN);
    assert_int_equal(host_auto_weights((1 << 30) + 1), WEIGHTS_FILE);
    assert_int_equal(host_auto_weights(UINT64_MAX), WEIGHTS_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_blocks_of_all_sizes, reset),
        cmocka_unit_test_setup(test_every_format_has_a_case, reset),
        cmocka_unit_test_setup(test_formats_of_32_bits_have_a_limit, reset),
        cmocka_unit_test_setup(test_weights_go_where_their_size_lets_them, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
