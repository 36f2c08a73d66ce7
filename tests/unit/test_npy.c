// SPDX-License-Identifier: Apache-2.0
// Files in the .npy format: every element type there and back, all versions, and what must be refused.
#include "compiler/import/tensors/npy.h"
#include "compiler/system/output.h"
#include "compiler/system/rawfile.h"
#include "unit.h"

static char folder[] = "/tmp/rlxc-npy-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/t.npy", folder);
    unlink(path);
    return rmdir(folder);
}

// A file from its header text; the data follows.
typedef struct Bytes {
    _Alignas(16) unsigned char data[512];
    size_t len;
} Bytes;

static Bytes make_file(int version, const char *header, const void *data, size_t n)
{
    Bytes b = {.len = 0};
    size_t h = strlen(header), at = version == 1 ? 10 : 12;
    assert_true(at + h + n <= sizeof b.data);
    memcpy(b.data, "\x93NUMPY", 6);
    b.data[6] = (unsigned char)version;
    b.data[8] = (unsigned char)(h & 0xff);
    b.data[9] = (unsigned char)(h >> 8);
    memcpy(b.data + at, header, h);
    if (n)
        memcpy(b.data + at + h, data, n);
    b.len = at + h + n;
    return b;
}

static bool reads(const Bytes *b, Tensor *t, Arena *a, const char *message)
{
    Diag d = diag_new(a);
    bool ok = npy_read(a, &d, (Span){0}, "x.npy", b->data, b->len, t);
    assert_int_equal(d.n_errors, !ok);
    if (!ok && message && !strstr(d.items.data[0].message, message))
        fail_msg("'%s' lacks '%s'", d.items.data[0].message, message);
    return ok;
}

static void test_round_trip(void **state)
{
    (void)state;
    const char *path = NULL;
    for (uint32_t type = 0; type < DTYPE_COUNT; type++) {
        Arena a = {0};
        Diag d = diag_new(&a);
        RawFile file;
        Tensor back, t = tensor_new(&a, (DType)type, 3, (int64_t[]){2, 3, 2});
        path = arena_printf(&a, "%s/t.npy", folder);
        for (int64_t i = 0; i < t.numel; i++)
            tensor_set_i64(&t, i,
                           type == DTYPE_bool ? i % 2 : i - (dtype_info[type].cls == DCLASS_UINT ? 0 : 5));
        assert_true(npy_write(&d, path, &t));
        assert_true(rawfile_open(&a, &d, (Span){0}, path, &file));
        assert_true(npy_read(&a, &d, (Span){0}, path, file.data, file.len, &back));
        assert_true(npy_retype(&a, &back, t.dtype));
        assert_false(npy_retype(&a, &back, t.dtype == DTYPE_f64 ? DTYPE_i64 : DTYPE_f64));
        assert_int_equal(back.dtype, t.dtype);
        assert_int_equal(back.rank, 3);
        assert_memory_equal(back.dim, t.dim, 3 * sizeof *t.dim);
        assert_int_equal(back.numel, 12);
        assert_memory_equal(back.data, t.data, 12 * dtype_info[type].bytes);
        arena_free(&a);
    }
}

static bool reads_text(Arena *a, const Bytes *b, int64_t room, Tensor *out, const char *message)
{
    Diag d = diag_new(a);
    NpyText text;
    assert_true(npy_find_text(b->data, b->len, &text));
    const bool ok = npy_convert_text(a, &d, (Span){0}, "t.npy", &text, room, out);
    if (!ok)
        assert_non_null(strstr(d.items.data[0].message, message));
    return ok;
}

static void test_text(void **state)
{
    (void)state;
    Arena a = {0};
    Tensor t, back;
    // "h\u00e9" and "\U0001f600", which have 3 and 4 bytes as UTF-8
    static const uint32_t wide[2][2] = {{'h', 0xe9}, {0x1f600, 0}};
    static const char utf8[] = "h\xc3\xa9\0\0\xf0\x9f\x98\x80";
    Bytes b = make_file(1, "{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }", wide, sizeof wide);
    assert_true(reads_text(&a, &b, 5, &t, NULL));
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dim[1], 5);
    assert_memory_equal(t.data, utf8, 10);
    assert_false(reads_text(&a, &b, 3, &t, "string 1 is longer than --string-bytes says"));
    // Written as <U and read again.
    Diag d = diag_new(&a);
    RawFile file;
    NpyText text;
    assert_true(reads_text(&a, &b, 5, &t, NULL));
    const char *path = arena_printf(&a, "%s/t.npy", folder);
    assert_true(npy_write_text(&d, path, &t));
    assert_true(rawfile_open(&a, &d, (Span){0}, path, &file));
    assert_true(npy_find_text(file.data, file.len, &text));
    assert_int_equal(text.length, 2);
    assert_true(npy_convert_text(&a, &d, (Span){0}, path, &text, 5, &back));
    assert_memory_equal(back.data, utf8, 10);
    b = make_file(1, "{'descr': '|S3', 'fortran_order': False, 'shape': (2, 1), }", "ab\0xyz", 6);
    assert_true(reads_text(&a, &b, 4, &t, NULL));
    assert_memory_equal(t.data, "ab\0\0xyz\0", 8);
    b = make_file(1, "{'descr': '|S3', 'fortran_order': False, 'shape': (1,), }", "a\0b", 3);
    assert_false(reads_text(&a, &b, 4, &t, "has a zero in it"));
    b = make_file(1, "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", &(uint32_t){0xd800}, 4);
    assert_false(reads_text(&a, &b, 4, &t, "is no valid text"));
    b = make_file(1, "{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", &(uint32_t){'a'}, 4);
    assert_false(npy_find_text(b.data, b.len, &text));
    b = make_file(1, "{'descr': '<U0', 'fortran_order': False, 'shape': (3,), }", NULL, 0);
    assert_true(reads_text(&a, &b, 2, &t, NULL));
    assert_int_equal(t.numel, 6);
    arena_free(&a);
}

static void test_scalars_and_empty(void **state)
{
    (void)state;
    Arena a = {0};
    Tensor t;
    Bytes b = make_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", &(float){2.5f}, 4);
    assert_true(reads(&b, &t, &a, NULL));
    assert_int_equal(t.rank, 0);
    assert_true(tensor_get_f64(&t, 0) == 2.5);
    b = make_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }\n", NULL, 0);
    assert_true(reads(&b, &t, &a, NULL));
    assert_int_equal(t.numel, 0);
    assert_int_equal(t.dim[1], 7);
    arena_free(&a);
}

static void test_header_forms(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }        \n",
        "{\"shape\": (2,), \"fortran_order\": False, \"descr\": \"<i4\"}",
        "{'descr':'=i4','fortran_order':True,'shape':(2)}",
    };
    Arena a = {0};
    Tensor t;
    int32_t data[2] = {7, -9};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        for (int version = 1; version <= 3; version++) {
            Bytes b = make_file(version, headers[i], data, sizeof data);
            assert_true(reads(&b, &t, &a, NULL));
            assert_int_equal(tensor_get_i64(&t, 1), -9);
            assert_int_equal((uintptr_t)t.data % 16, 0);
        }
    }
    arena_free(&a);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        int version;
        const char *header, *message;
        size_t n_data;
    } cases[] = {
        {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", "Fortran order", 8},
        {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "big-endian", 8},
        {1, "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "element type '<c8'", 8},
        {1, "{'descr': '|f4', 'fortran_order': False, 'shape': (2,), }", "element type '|f4'", 8},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "needs 12 bytes, but 8", 8},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "needs 4 bytes, but 8", 8},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }", "needs",
         8},
        {1, "{'descr': '|b1', 'fortran_order': False, 'shape': (8,), }", "neither 0 nor 1", 8},
        {1, "{'descr': '<f4', 'shape': (2,), }", "malformed", 8},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }", "malformed", 8},
        {1, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "malformed", 8},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "malformed", 8},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "malformed", 8},
        {1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "malformed", 8},
        {4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "version 1 to 3", 8},
    };
    Arena a = {0};
    Tensor t;
    unsigned char data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = make_file(cases[i].version, cases[i].header, data, cases[i].n_data);
        if (reads(&b, &t, &a, cases[i].message))
            fail_msg("accepted: %s", cases[i].header);
    }
    arena_free(&a);
}

static void test_cut_off_anywhere(void **state)
{
    (void)state;
    Arena a = {0};
    Tensor t;
    Bytes b =
        make_file(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "\0\0\0\0\0\0\0\0", 8);
    size_t len = b.len;
    for (b.len = 0; b.len < len; b.len++)
        assert_false(reads(&b, &t, &a, NULL));
    assert_true(reads(&b, &t, &a, NULL));
    arena_free(&a);
}

static void test_names_of_files(void **state)
{
    (void)state;
    Arena a = {0};
    char name[512];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_string_equal(output_npy_name(&a, "a/b:c"), "a_b_c.npy");
    const char *first = output_npy_name(&a, name);
    name[sizeof name - 2] = 'y';
    assert_true(strlen(first) < 255);
    assert_string_not_equal(first, output_npy_name(&a, name));
    assert_memory_equal(first, name, 200);
    memcpy(name + 199, "\xc3\xa4", 2); // a character that begins just before the cut
    assert_int_equal(output_npy_name(&a, name)[199], '-');
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_scalars_and_empty),
        cmocka_unit_test(test_header_forms),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cut_off_anywhere), cmocka_unit_test(test_text),
        cmocka_unit_test(test_names_of_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
