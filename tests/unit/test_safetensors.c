// SPDX-License-Identifier: Apache-2.0
// Weights in .safetensors and raw files: there and back, alignment, what must be refused, and paths.
#include "compiler/system/rawfile.h"
#include "compiler/import/tensors/safetensors.h"
#include "compiler/import/tensors/tensor_bytes.h"
#include "unit.h"

#include <sys/stat.h>

static char folder[] = "/tmp/rlxc-st-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    unlink(path);
    return rmdir(folder);
}

// Reads a header with n bytes of data behind it. The message must hold `message` where it fails.
static bool reads(Arena *a, const char *header, size_t n, const char *message, SafeTensors *out)
{
    Diag d = diag_new(a);
    size_t h = strlen(header);
    unsigned char *bytes = arena_alloc(a, 8 + h + n);
    for (uint32_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)h >> 8 * i);
    memcpy(bytes + 8, header, h);
    memset(bytes + 8 + h, 1, n);
    bool ok = safetensors_read(a, &d, (Span){0}, "x.safetensors", bytes, 8 + h + n, out);
    assert_int_equal(d.n_errors, !ok);
    if (!ok && message && !strstr(d.items.data[0].message, message))
        fail_msg("'%s' lacks '%s'", d.items.data[0].message, message);
    return ok;
}

static bool write_file(Diag *d, const char *path, const SafeTensors *made)
{
    OutputFiles files;
    const bool ok = output_begin(&files, d, "", 1) && safetensors_write(&files, path, made);
    return output_end(&files, ok);
}

static void test_round_trip(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    SafeTensor in[DTYPE_COUNT];
    SafeTensors file, made = {0};
    const char *path = arena_printf(&a, "%s/t.safetensors", folder);
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        in[i].name = arena_printf(&a, "a \"%s\"\n\xc3\xa9", dtype_info[i].name);
        in[i].tensor = tensor_new(&a, (DType)i, 2, (int64_t[]){i, 3});
        for (int64_t k = 0; k < in[i].tensor.numel; k++)
            tensor_set_i64(&in[i].tensor, k, k % 2);
        vec_push(&a, &made.tensors, in[i]);
    }
    vec_push(&a, &made.notes.list, ((GraphNote){"a \"note\"", "\xc3\xa9\n"}));
    vec_push(&a, &made.notes.list, ((GraphNote){"", ""}));
    assert_true(write_file(&d, path, &made));
    assert_true(safetensors_open(&a, &d, (Span){0}, path, &file));
    assert_int_equal(file.tensors.len, DTYPE_COUNT);
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        const SafeTensor *t = safetensors_find(&file, in[i].name);
        assert_non_null(t);
        assert_ptr_equal(t, &file.tensors.data[i]); // in the order in which they were given
        assert_int_equal(t->tensor.dtype, i);
        assert_int_equal(t->tensor.dim[0], i);
        if (t->tensor.numel)
            assert_memory_equal(t->tensor.data, in[i].tensor.data,
                                (size_t)t->tensor.numel * dtype_info[i].bytes);
    }
    assert_null(safetensors_find(&file, "a"));
    assert_int_equal(file.notes.list.len, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(file.notes.list.data[i].name, made.notes.list.data[i].name);
        assert_string_equal(file.notes.list.data[i].text, made.notes.list.data[i].text);
    }
    arena_free(&a);
}

static void test_large_file_is_used_in_place(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    SafeTensors file;
    SafeTensor in[2] = {{"odd", tensor_new(&a, DTYPE_f32, 1, (int64_t[]){3})},
                        {"even", tensor_new(&a, DTYPE_f32, 1, (int64_t[]){1 << 16})}};
    const char *path = arena_printf(&a, "%s/t.safetensors", folder);
    tensor_set_f64(&in[1].tensor, 65535, 4.0);
    SafeTensors made = {0};
    vec_push(&a, &made.tensors, in[0]);
    vec_push(&a, &made.tensors, in[1]);
    assert_true(write_file(&d, path, &made));
    Arena small = {0};
    assert_true(safetensors_open(&small, &d, (Span){0}, path, &file));
    assert_true(small.used < 64 * 1024); // mapped, not copied
    Tensor t = safetensors_find(&file, "even")->tensor;
    const void *before = t.data;
    assert_true(tensor_set_bytes(&small, &t, before));
    assert_ptr_equal(t.data, before); // aligned by the writer's order
    assert_true(tensor_get_f64(&t, 65535) == 4.0);
    arena_free(&small);
    arena_free(&a);
}

static void test_unaligned_is_copied(void **state)
{
    (void)state;
    Arena a = {0};
    char *bytes = arena_alloc(&a, 64);
    Tensor t = {.dtype = DTYPE_f32, .rank = 1, .dim = {2}, .numel = 2};
    memcpy(bytes + 5, (float[]){1.5f, 2.5f}, 8);
    assert_true(tensor_set_bytes(&a, &t, bytes + 5));
    assert_int_equal((uintptr_t)t.data % 16, 0);
    assert_true(tensor_get_f64(&t, 1) == 2.5);
    t = (Tensor){.dtype = DTYPE_bool, .rank = 1, .dim = {2}, .numel = 2};
    assert_false(tensor_set_bytes(&a, &t, "\1\2"));
    assert_true(tensor_set_bytes(&a, &t, "\1\0"));
    arena_free(&a);
}

static void test_accepted(void **state)
{
    (void)state;
    Arena a = {0};
    SafeTensors f;
    assert_true(reads(&a, "{}", 0, NULL, &f));
    assert_true(reads(&a,
                      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2],"
                      "\"data_offsets\":[1,3]}}   ",
                      3, NULL, &f));
    assert_int_equal(f.tensors.len, 1);
    assert_string_equal(f.notes.list.data[0].text, "pt");
    assert_true(reads(&a, "{\"__metadata__\":{\"n\":1}}", 0, NULL, &f));
    assert_true(reads(&a, "{\"__metadata__\":3}", 0, NULL, &f));
    assert_int_equal(f.notes.list.len, 0);
    assert_true(
        reads(&a, "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, NULL, &f));
    assert_null(safetensors_find(&f, "a")); // a type that rlxc lacks is no error by itself
    arena_free(&a);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"", "not JSON"},
        {"[]", "not a JSON object"},
        {"{\"a\":1}", "needs exactly the members"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "needs exactly the members"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":0}}",
         "needs exactly the members"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9]}}", "do not lie within its 8 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "do not lie within"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "do not lie within"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", "do not lie within"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0.5,4]}}", "do not lie within"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[]}}", "do not lie within"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
         "has 8 bytes, but its type needs 12"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
         "its type needs"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,8]}}", "shape of at most"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", "shape of at most"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}",
         "shape of at most"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         "two tensors 'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", "not JSON"},
    };
    Arena a = {0};
    SafeTensors f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (reads(&a, cases[i].header, 8, cases[i].message, &f))
            fail_msg("accepted: %s", cases[i].header);
    Diag d = diag_new(&a);
    assert_false(safetensors_read(&a, &d, (Span){0}, "x", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &f));
    assert_false(safetensors_read(&a, &d, (Span){0}, "x", "\2\0\0\0\0\0\0", 7, &f));
    arena_free(&a);
}

static void test_paths(void **state)
{
    (void)state;
    Arena a = {0};
    assert_string_equal(rawfile_resolve(&a, "", "w.bin"), "w.bin");
    assert_string_equal(rawfile_resolve(&a, "m", "w.bin"), "m/w.bin");
    assert_string_equal(rawfile_resolve(&a, "/", "w.bin"), "/w.bin");
    assert_string_equal(rawfile_resolve(&a, "m", "/w.bin"), "/w.bin");
    assert_string_equal(rawfile_resolve(&a, "m", "a/..b/c..bin"), "m/a/..b/c..bin");
    static const char *const bad[] = {"", "..", "../w", "a/../w", "a/..", "./../w"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(rawfile_resolve(&a, "m", bad[i]));
    assert_string_equal(rawfile_folder(&a, "a/b/c.json"), "a/b");
    assert_string_equal(rawfile_folder(&a, "c.json"), "");
    assert_string_equal(rawfile_folder(&a, "/c.json"), "/");
    arena_free(&a);
}

static void test_odd_files(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    RawFile f;
    const char *pipe_path = arena_printf(&a, "%s/pipe", folder);
    assert_false(rawfile_open(&a, &d, (Span){0}, folder, &f)); // a folder
    assert_non_null(strstr(d.items.data[0].message, "folder"));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_false(rawfile_open(&a, &d, (Span){0}, pipe_path, &f)); // must not wait for a writer
    unlink(pipe_path);
    assert_false(rawfile_open(&a, &d, (Span){0}, "/dev/zero", &f));
    assert_false(rawfile_open(&a, &d, (Span){0}, pipe_path, &f)); // does not exist
    assert_int_equal(d.n_errors, 4);
    assert_int_equal(d.items.data[3].code, E0001);
    arena_free(&a);
}

static void test_write_is_all_or_nothing(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    const char *inner = arena_printf(&a, "%s/no/such/t.safetensors", folder);
    assert_false(rawfile_write(&d, inner, &(FilePart){"x", 1}, 1));
    assert_int_equal(d.items.data[0].code, E0002);
    assert_false(rawfile_write(&d, folder, &(FilePart){"x", 1}, 1)); // a folder stands there
    assert_int_equal(access(arena_printf(&a, "%s.%ld.0.tmp", folder, (long)getpid()), F_OK), -1);
    arena_free(&a);
}

// What a killed process of the same number has left is in nobody's way, and stays.
static void test_stale_temporary_file(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    RawWriter first, second;
    const char *path = arena_printf(&a, "%s/t.safetensors", folder);
    assert_true(rawfile_create(&first, &d, path)); // as good as one that was killed
    assert_true(rawfile_create(&second, &d, path));
    assert_true(rawfile_append(&second, "new", 3));
    assert_true(rawfile_commit(&second, true));
    assert_int_equal(access(first.temporary, F_OK), 0);
    assert_false(rawfile_commit(&first, false));
    assert_int_equal(access(first.temporary, F_OK), -1);
    assert_int_equal(access(path, F_OK), 0);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_large_file_is_used_in_place),
        cmocka_unit_test(test_unaligned_is_copied),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_write_is_all_or_nothing),
        cmocka_unit_test(test_stale_temporary_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
