// SPDX-License-Identifier: Apache-2.0
// The reader of GGUF files: what it reads, and that every field that is wrong ends in a message with its
// byte. The bytes are in memory of exactly their size, so that AddressSanitizer sees a read behind them.
#include "compiler/import/gguf/gguf.h"
#include "gguf_bytes.h"
#include "ir/graph/blocks.h"
#include "unit.h"


static char folder[] = "/tmp/rlxc-gguf-XXXXXX";
static const uint64_t small[] = {32, 2};

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[128];
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "%s/m-%05d-of-00003.gguf", folder, i);
        unlink(path);
    }
    return rmdir(folder);
}

// False: refused, with one message, which *message gets.
static bool reads(Arena *a, const Str *s, GgufFile *out, const char **message)
{
    Diag d = diag_new(a);
    unsigned char *exact = malloc(s->len ? s->len : 1);
    assert_non_null(exact);
    memcpy(exact, s->len ? s->data : "", s->len);
    const bool ok = gguf_read(a, &d, "x.gguf", exact, s->len, out);
    assert_int_equal(d.n_errors, !ok);
    *message = ok ? NULL : d.items.data[0].message;
    free(exact);
    return ok && gguf_read(a, &d, "x.gguf", arena_copy(a, s->data, s->len), s->len, out);
}

static void assert_refused(Arena *a, const Str *s, const char *expected)
{
    GgufFile f;
    const char *message = NULL;
    if (reads(a, s, &f, &message))
        fail_msg("it was read; expected '%s'", expected);
    if (strstr(message, expected) == NULL)
        fail_msg("'%s' lacks '%s'", message, expected);
}

// A value of every type, arrays, and two tensors of which one has blocks.
static Str make_whole(Arena *a, uint32_t version)
{
    static const uint64_t row[] = {3, 1};
    const float half = 1.5F;
    const double third = -2.5;
    uint32_t f32 = 0;
    uint64_t f64 = 0;
    memcpy(&f32, &half, 4);
    memcpy(&f64, &third, 8);
    Str s = str_new(a);
    gguf_put_header(&s, 2, 18);
    s.data[4] = (char)version;
    gguf_put_entry(&s, "a.u8", 0, 200, 1);
    gguf_put_entry(&s, "a.i8", 1, 0xfe, 1);
    gguf_put_entry(&s, "a.u16", 2, 60000, 2);
    gguf_put_entry(&s, "a.i16", 3, 0xfffd, 2);
    gguf_put_entry(&s, "a.u32", 4, 4000000000U, 4);
    gguf_put_entry(&s, "a.i32", 5, 0xfffffffcU, 4);
    gguf_put_entry(&s, "a.f32", 6, f32, 4);
    gguf_put_entry(&s, "a.bool", 7, 1, 1);
    gguf_put_string(&s, "a.string", "text \xc3\xa9\n");
    gguf_put_entry(&s, "a.u64", 10, UINT64_MAX, 8);
    gguf_put_entry(&s, "a.i64", 11, (uint64_t)INT64_MIN, 8);
    gguf_put_entry(&s, "a.f64", 12, f64, 8);
    gguf_put_array(&s, "l.strings", 8, 3);
    gguf_put_text(&s, "one");
    gguf_put_text(&s, "");
    gguf_put_text(&s, "three");
    gguf_put_array(&s, "l.i32", 5, 2);
    gguf_put(&s, 7, 4);
    gguf_put(&s, 0xffffffffU, 4);
    gguf_put_array(&s, "l.f32", 6, 1);
    gguf_put(&s, f32, 4);
    gguf_put_array(&s, "l.none", 0, 0);
    gguf_put_array(&s, "l.nested", 9, 1);
    gguf_put(&s, 8, 4);
    gguf_put(&s, 1, 8);
    gguf_put_text(&s, "deep");
    gguf_put_entry(&s, "general.alignment", 4, 64, 4);
    gguf_put_tensor(&s, "w", small, 2, 64);
    gguf_put_tensor(&s, "b", row, 0, 0);
    gguf_put_data(&s, 64, 100);
    return s;
}

static void test_scalars(void **state)
{
    (void)state;
    Arena a = {0};
    GgufFile f;
    const char *message = NULL;
    uint64_t u = 0;
    double v = 0;
    bool b = false;
    const Str s = make_whole(&a, 2);
    assert_true(reads(&a, &s, &f, &message));
    assert_int_equal(f.parts.data[0].version, 2);
    assert_int_equal(f.entries.len, 18);
    assert_true(gguf_uint(&f, "a.u8", &u) && u == 200);
    assert_true(gguf_uint(&f, "a.u16", &u) && u == 60000);
    assert_true(gguf_uint(&f, "a.u32", &u) && u == 4000000000U);
    assert_true(gguf_uint(&f, "a.u64", &u) && u == UINT64_MAX);
    assert_true(gguf_float(&f, "a.i8", &v) && v == -2);
    assert_true(gguf_float(&f, "a.i16", &v) && v == -3);
    assert_true(gguf_float(&f, "a.i32", &v) && v == -4);
    assert_true(gguf_float(&f, "a.i64", &v) && v == -0x1p63);
    assert_true(gguf_float(&f, "a.f32", &v) && v == 1.5);
    assert_true(gguf_float(&f, "a.f64", &v) && v == -2.5);
    assert_true(gguf_float(&f, "a.u8", &v) && v == 200);
    assert_true(gguf_bool(&f, "a.bool", &b) && b);
    assert_string_equal(gguf_string(&f, "a.string"), "text \xc3\xa9\n");
    assert_string_equal(gguf_value_name(gguf_find(&f, "a.i16")->type), "i16");
    // Another kind, and no such key.
    assert_false(gguf_uint(&f, "a.i8", &u) || gguf_uint(&f, "a.f32", &u) || gguf_uint(&f, "a.bool", &u));
    assert_false(gguf_float(&f, "a.bool", &v) || gguf_float(&f, "a.string", &v) || gguf_bool(&f, "a.u8", &b));
    assert_null(gguf_string(&f, "a.u8"));
    assert_null(gguf_find(&f, "a"));
    arena_free(&a);
}

static void test_arrays(void **state)
{
    (void)state;
    Arena a = {0};
    GgufFile f;
    GgufArray l;
    const char *message = NULL;
    const Str s = make_whole(&a, 3);
    assert_true(reads(&a, &s, &f, &message));
    assert_true(gguf_array(&f, "l.strings", &l) && l.n == 3 && l.type == GGUF_string);
    assert_int_equal(l.text[0].len, 3);
    assert_memory_equal(l.text[0].data, "one", 3);
    assert_int_equal(l.text[1].len, 0);
    assert_memory_equal(l.text[2].data, "three", 5);
    assert_true(gguf_array(&f, "l.i32", &l) && l.n == 2);
    assert_int_equal(gguf_array_int(&l, 0), 7);
    assert_int_equal(gguf_array_int(&l, 1), -1);
    assert_true(gguf_array_float(&l, 1) == -1);
    assert_true(gguf_array(&f, "l.f32", &l) && gguf_array_float(&l, 0) == 1.5);
    assert_int_equal(gguf_array_int(&l, 0), 1);
    assert_true(gguf_array(&f, "l.none", &l) && l.n == 0);
    assert_false(gguf_array(&f, "l.nested", &l) || gguf_array(&f, "a.u8", &l));
    arena_free(&a);
}

static void test_tensors(void **state)
{
    (void)state;
    Arena a = {0};
    GgufFile f;
    const char *message = NULL;
    const Str s = make_whole(&a, 3);
    assert_true(reads(&a, &s, &f, &message));
    const GgufTensor *w = gguf_tensor(&f, "w"), *b = gguf_tensor(&f, "b");
    assert_non_null(w);
    assert_non_null(b);
    assert_null(gguf_tensor(&f, "c"));
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->dim[0], 32);
    assert_int_equal(w->dim[1], 2);
    assert_string_equal(w->type->format, "q4_0");
    assert_int_equal(w->bytes, 36);
    assert_int_equal(w->data - f.parts.data[0].data, s.len - 36);
    assert_string_equal(b->type->name, "F32");
    assert_int_equal(b->bytes, 12);
    assert_ptr_equal(b->data + 64, w->data);
    arena_free(&a);
}

// All files that end too early, and all with one byte that is another one: read or refused with one message.
static void test_every_byte(void **state)
{
    (void)state;
    Arena a = {0};
    for (size_t n = 0; n < make_whole(&a, 3).len - 100; n++) {
        GgufFile f;
        const char *message = NULL;
        Str s = make_whole(&a, 3);
        s.len = n;
        assert_false(reads(&a, &s, &f, &message));
        assert_non_null(strstr(message, "(at byte "));
        arena_reset(&a);
    }
    static const unsigned char others[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t n = 0; n < 5 * (make_whole(&a, 3).len - 100); n++) {
        GgufFile f;
        const char *message = NULL;
        Str s = make_whole(&a, 3);
        s.data[n / 5] = (char)others[n % 5];
        if (!reads(&a, &s, &f, &message))
            assert_non_null(strstr(message, "(at byte "));
        arena_reset(&a);
    }
    arena_free(&a);
}

static void test_header(void **state)
{
    (void)state;
    Arena a = {0};
    static const struct {
        uint32_t at, bytes;
        uint64_t v;
        const char *expected;
    } wrong[] = {
        {0, 4, 0x46464747, "the header: expected the bytes \"GGUF\" (at byte 0)"},
        {4, 4, 1, "version 1 is not supported; rlxc reads versions 2 and 3 (at byte 4)"},
        {4, 4, 4, "version 4 is not supported"},
        {4, 4, 0x03000000, "the file is big-endian"},
        {8, 8, UINT64_C(1) << 60, "1152921504606846976 tensors cannot be in a file of"},
        {16, 8, UINT64_C(1) << 60, "1152921504606846976 entries cannot be in a file of"},
        {16, 8, 19, "tensor 0: it needs 562949953421312 more bytes"},
        {8, 8, 3, "tensor 2: its name has 0 bytes; expected 1 to 63"},
        {24, 8, UINT64_MAX, "entry 0: it needs 18446744073709551615 more bytes"},
        {24, 8, 0, "entry 0: its key has 0 bytes"},
        {32, 1, 10, "entry 0: its key has a control character (at byte 24)"},
        {36, 4, 13, "entry 'a.u8': there is no type 13 of values (at byte 36)"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Str s = make_whole(&a, 3);
        for (uint32_t k = 0; k < wrong[i].bytes; k++)
            s.data[wrong[i].at + k] = (char)(wrong[i].v >> 8 * k);
        assert_refused(&a, &s, wrong[i].expected);
    }
    arena_free(&a);
}

// The file with one entry, to which `put` gives a value.
static void assert_entry_refused(void (*put)(Str *), const char *expected)
{
    Arena a = {0};
    Str s = str_new(&a);
    gguf_put_header(&s, 0, 1);
    put(&s);
    assert_refused(&a, &s, expected);
    arena_free(&a);
}

static void put_bool(Str *s)
{
    gguf_put_entry(s, "k", 7, 2, 1);
}

static void put_bools(Str *s)
{
    gguf_put_array(s, "k", 7, 2);
    gguf_put(s, 0x0301, 2);
}

static void put_long_array(Str *s)
{
    gguf_put_array(s, "k", 10, UINT64_C(1) << 61);
}

static void put_long_strings(Str *s)
{
    gguf_put_array(s, "k", 8, 1);
    gguf_put(s, 1000, 8);
}

static void put_deep(Str *s)
{
    gguf_put_array(s, "k", 9, 1);
    for (int i = 0; i < 5; i++) {
        gguf_put(s, 9, 4);
        gguf_put(s, 1, 8);
    }
}

static void put_alignment_7(Str *s)
{
    gguf_put_entry(s, "general.alignment", 4, 24, 4);
}

static void put_alignment_4(Str *s)
{
    gguf_put_entry(s, "general.alignment", 4, 4, 4);
}

static void put_alignment_u64(Str *s)
{
    gguf_put_entry(s, "general.alignment", 10, 32, 8);
}

static void test_entries(void **state)
{
    (void)state;
    Arena a = {0};
    assert_entry_refused(put_bool, "entry 'k': a bool is 2; expected 0 or 1 (at byte 37)");
    assert_entry_refused(put_bools, "entry 'k': a bool is 3; expected 0 or 1 (at byte 50)");
    assert_entry_refused(put_long_array, "an array of 2305843009213693952 elements is longer than the file");
    assert_entry_refused(put_long_strings, "entry 'k': it needs 1000 more bytes, but the file has 0");
    assert_entry_refused(put_deep, "entry 'k': arrays are nested more than 4 deep");
    assert_entry_refused(put_alignment_7, "it is 24; expected a power of two from 8");
    assert_entry_refused(put_alignment_4, "it is 4; expected a power of two from 8");
    assert_entry_refused(put_alignment_u64, "entry 'general.alignment': its type is u64; expected u32");
    Str s = str_new(&a);
    gguf_put_header(&s, 0, 2);
    gguf_put_entry(&s, "k", 0, 1, 1);
    gguf_put_entry(&s, "k", 0, 1, 1);
    assert_refused(&a, &s, "entry 'k': there are two entries with this key (at byte 38)");
    arena_free(&a);
}

typedef struct Described {
    const char *name;
    uint64_t dim[2];
    uint32_t type;
    uint64_t offset;
} Described;

// Two tensors and 128 bytes of data. expected: NULL, they are read.
static void check_two(const Described *two, const char *expected)
{
    Arena a = {0};
    GgufFile f;
    const char *message = NULL;
    Str s = str_new(&a);
    gguf_put_header(&s, 2, 0);
    for (int i = 0; i < 2; i++)
        gguf_put_tensor(&s, two[i].name, two[i].dim, two[i].type, two[i].offset);
    gguf_put_data(&s, 32, 128);
    if (expected != NULL)
        assert_refused(&a, &s, expected);
    else
        assert_true(reads(&a, &s, &f, &message));
    arena_free(&a);
}

static void test_tensor_fields(void **state)
{
    (void)state;
    static const struct {
        Described two[2];
        const char *expected;
    } cases[] = {
        {{{"a", {8, 2}, 0, 0}, {"b", {8, 2}, 0, 64}}, NULL},
        {{{"a", {8, 2}, 0, 64}, {"b", {8, 2}, 0, 0}}, NULL},
        {{{"a", {8, 2}, 77, 0}, {"b", {8, 2}, 0, 64}}, NULL}, // nobody needs it yet
        {{{"a", {8, 2}, 0, 0}, {"a", {8, 2}, 0, 64}}, "tensor 'a': there are two tensors of this name"},
        {{{"a", {8, 2}, 0, 0}, {"b", {8, 2}, 0, 32}}, "tensor 'b': its data overlap those of 'a'"},
        {{{"a", {8, 2}, 0, 0}, {"b", {8, 2}, 77, 32}}, "tensor 'b': its data overlap those of 'a'"},
        {{{"a", {8, 2}, 0, 0}, {"b", {8, 2}, 0, 72}}, "its offset 72 is no multiple of the alignment 32"},
        {{{"a", {8, 2}, 0, 0}, {"b", {8, 2}, 0, 96}}, "it has 64 bytes from offset 96 on, but the data have"},
        {{{"a", {8, 2}, 0, 0}, {"b", {8, 2}, 0, UINT64_C(0xffffffffffffffe0)}}, "but the data have 128"},
        {{{"a", {0, 2}, 0, 0}, {"b", {8, 2}, 0, 64}}, "tensor 'a': size 0 is 0; expected 1 or more"},
        {{{"a", {UINT64_C(1) << 40, 2}, 0, 0}, {"b", {8, 2}, 0, 64}}, "size 1 is 2; expected 1 or more, and"},
        {{{"a", {UINT64_MAX, UINT64_MAX}, 0, 0}, {"b", {8, 2}, 0, 64}}, "size 0 is 18446744073709551615"},
        {{{"a", {48, 2}, 2, 0}, {"b", {8, 2}, 0, 64}}, "48 is no multiple of the 32 elements of a block of"},
        {{{"a", {128, 2}, 10, 0}, {"b", {8, 2}, 0, 64}}, "128 is no multiple of the 256 elements of a block"},
        {{{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", {8, 2}, 0, 0},
          {"b", {8, 2}, 0, 64}},
         "tensor 0: its name has 64 bytes; expected 1 to 63"},
        {{{"a\tb", {8, 2}, 0, 0}, {"b", {8, 2}, 0, 64}}, "tensor 0: its name has a control character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_two(cases[i].two, cases[i].expected);
}

static void test_rank(void **state)
{
    (void)state;
    static const uint64_t ranks[] = {0, 5, UINT32_MAX};
    Arena a = {0};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        Str s = str_new(&a);
        gguf_put_header(&s, 1, 0);
        gguf_put_text(&s, "a");
        gguf_put(&s, ranks[i], 4);
        gguf_put_data(&s, 32, 64);
        assert_refused(&a, &s, "sizes; expected 1 to 4 (at byte 33)");
    }
    arena_free(&a);
}

// Sizes of blocks are those of the formats that rlxc has.
static void test_types(void **state)
{
    (void)state;
    Arena a = {0};
    uint32_t known = 0;
    for (uint32_t i = 0; i < 64; i++) {
        const GgufType *t = gguf_type(i);
        if (t == NULL || t->format == NULL)
            continue;
        const BlockFormat *f = block_format(&a, t->format);
        assert_non_null(f);
        assert_int_equal(f->elements, t->elements);
        assert_int_equal(f->bytes, t->bytes);
        known++;
    }
    assert_int_equal(known, BLOCK_FORMATS);
    arena_free(&a);
}

// --- files in parts ---

static void write_part(Arena *a, uint32_t number, uint32_t says, const char *tensor)
{
    Str s = str_new(a);
    gguf_put_header(&s, 1, 3);
    gguf_put_entry(&s, "split.no", 2, says, 2);
    gguf_put_entry(&s, "split.count", 2, 3, 2);
    gguf_put_entry(&s, "split.tensors.count", 5, 3, 4);
    gguf_put_tensor(&s, tensor, small, 2, 0);
    gguf_put_data(&s, 32, 36);
    FILE *out = fopen(arena_printf(a, "%s/m-%05u-of-00003.gguf", folder, number + 1), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(s.data, 1, s.len, out), s.len);
    assert_int_equal(fclose(out), 0);
}

static void check_parts(Arena *a, uint32_t open, const char *expected)
{
    GgufFile f;
    Diag d = diag_new(a);
    const bool ok = gguf_open(a, &d, arena_printf(a, "%s/m-%05u-of-00003.gguf", folder, open + 1), &f);
    assert_int_equal(ok, expected == NULL);
    if (expected != NULL && strstr(d.items.data[0].message, expected) == NULL)
        fail_msg("'%s' lacks '%s'", d.items.data[0].message, expected);
    if (ok) {
        assert_int_equal(f.tensors.len, 3);
        assert_int_equal(gguf_tensor(&f, "c")->part, 2);
        assert_memory_equal(gguf_tensor(&f, "c")->data, "\0\1\2\3", 4);
    }
}

static void test_parts(void **state)
{
    (void)state;
    Arena a = {0};
    static const char *const names[] = {"a", "b", "c"};
    write_part(&a, 0, 0, "a");
    check_parts(&a, 0, "cannot read");
    for (uint32_t i = 1; i < 3; i++)
        write_part(&a, i, i, names[i]);
    check_parts(&a, 0, NULL);
    check_parts(&a, 1, "this is part 2 of 3; give the first one, NAME-00001-of-00003.gguf");
    write_part(&a, 2, 1, "c");
    check_parts(&a, 0, "its split.no and split.count are 1 and 3; expected 2 and 3");
    write_part(&a, 2, 2, "b");
    check_parts(&a, 0, "tensor 'b': there are two tensors of this name");
    arena_free(&a);
}

static void test_part_counts(void **state)
{
    (void)state;
    Arena a = {0};
    Str s = str_new(&a);
    gguf_put_header(&s, 0, 1);
    gguf_put_entry(&s, "split.count", 2, 2, 2);
    assert_refused(&a, &s, "expected the name of the first one to end in -00001-of-00002.gguf");
    s = str_new(&a);
    gguf_put_header(&s, 0, 1);
    gguf_put_entry(&s, "split.count", 4, 1 << 20, 4);
    assert_refused(&a, &s, "split.count is 1048576; expected at most 4096");
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),       cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_tensors),       cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_header),        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_tensor_fields), cmocka_unit_test(test_rank),
        cmocka_unit_test(test_types),         cmocka_unit_test(test_part_counts),
        cmocka_unit_test_setup_teardown(test_parts, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
