// SPDX-License-Identifier: Apache-2.0
// The reader of flatbuffers: what it reads, and that nothing in a buffer leads it outside. The buffers are in
// memory of exactly their size, so that AddressSanitizer sees a read behind them.
#include "compiler/import/tflite/flat.h"
#include "compiler/import/tflite/tflite.h"
#include "unit.h"

#include <stdlib.h>

enum { LIST = 60, LEN = 68 };

// A table with an i32 (-7), a list of three bytes, an f32 (1.5), and another table without fields.
static void fill(unsigned char *b)
{
    static const uint32_t words[] = {
        20,            // 0: root
        0x334c4654,    // 4: "TFL3"
        12 | 20 << 16, // 8: four fields, a table of 20 bytes
        4 | 8 << 16,
        12 | 16 << 16, // 12: their places
        12,            // 20: back to 8
        (uint32_t)-7,
        32,
        0x3fc00000,
        8,           // 24: i32; 28: list at 60; 32: f32; 36: table at 44
        4 | 4 << 16, // 40: no fields, a table of 4 bytes
        4,           // 44: back to 40
        0,
        0,
        0, // 48
        3,
        'a' | 'b' << 8 | 'c' << 16,
    };
    memset(b, 0, LEN);
    memcpy(b, words, sizeof words);
}

typedef struct Found {
    int64_t number;
    double real;
    uint32_t n, inner;
    const char *text;
} Found;

static Found read_all(FlatFile *f, Arena *a)
{
    const FlatTable t = flat_root(f);
    const FlatList l = flat_list(t, 1, 1);
    Found r = {.number = flat_int(t, 0, FLAT_I32, 0), .real = flat_f32(t, 2, 0), .n = l.n};
    for (uint32_t i = 0; i < l.n && i < 100; i++)
        r.number += flat_list_int(l, i, FLAT_U8) > 255;
    r.text = flat_text(a, t, 1);
    r.inner = flat_table(t, 3).count + (uint32_t)flat_int(flat_table(t, 3), 0, FLAT_I64, 0);
    return r;
}

static unsigned char *exact(const unsigned char *from, size_t n)
{
    unsigned char *p = malloc(n ? n : 1);
    assert_non_null(p);
    memcpy(p, from, n);
    return p;
}

static void test_values(void **state)
{
    (void)state;
    Arena a = {0};
    unsigned char b[LEN];
    fill(b);
    FlatFile f = {.data = b, .len = LEN};
    const Found r = read_all(&f, &a);
    assert_null(f.broken);
    assert_int_equal(r.number, -7);
    assert_int_equal(r.n, 3);
    assert_string_equal(r.text, "abc");
    assert_true(r.real >= 1.5 && r.real <= 1.5);
    assert_int_equal(r.inner, 0);
    assert_int_equal(flat_int(flat_root(&f), 9, FLAT_I32, 42), 42);
    arena_free(&a);
}

static void test_truncated(void **state)
{
    (void)state;
    Arena a = {0};
    unsigned char b[LEN];
    fill(b);
    for (size_t n = 0; n < LIST + 7; n++) {
        unsigned char *copy = exact(b, n);
        FlatFile f = {.data = copy, .len = n};
        read_all(&f, &a);
        if (!f.broken)
            fail_msg("%zu of %d bytes are read as if they were all", n, LEN);
        assert_true(f.broken_at <= n);
        free(copy);
    }
    arena_free(&a);
}

// Any byte may be anything: what is read then stays inside, or the file is broken.
static void test_changed(void **state)
{
    (void)state;
    static const unsigned char values[] = {0, 1, 2, 3, 4, 8, 0x3f, 0x7f, 0x80, 0xfe, 0xff};
    Arena a = {0};
    unsigned char b[LEN];
    for (size_t at = 0; at < LEN; at++)
        for (size_t k = 0; k < sizeof values; k++) {
            fill(b);
            b[at] = values[k];
            unsigned char *copy = exact(b, LEN);
            FlatFile f = {.data = copy, .len = LEN};
            const Found r = read_all(&f, &a);
            assert_true(f.broken || r.n <= LEN);
            free(copy);
        }
    arena_free(&a);
}

static void test_shared(void **state)
{
    (void)state;
    unsigned char b[LEN];
    fill(b);
    FlatFile f = {.data = b, .len = LEN};
    const FlatTable t = flat_root(&f);
    uint32_t opened = 0;
    while (!f.broken && opened < 1000000) // as a list of two words, the same again and again
        opened += flat_list(t, 1, 1).n != 0;
    assert_non_null(f.broken);
}

static void test_model(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    Graph *g = NULL;
    unsigned char b[LEN];
    fill(b);
    assert_true(tflite_is(b, LEN));
    assert_false(tflite_is(b, 7));
    assert_false(import_tflite(&a, &d, &(TflSource){.name = "x.tflite", .data = b, .len = LEN}, &g));
    assert_int_equal(d.n_errors, 1);
    assert_int_equal(d.items.data[0].code, E0113);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_truncated), cmocka_unit_test(test_changed),
        cmocka_unit_test(test_shared), cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
