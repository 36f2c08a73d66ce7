// SPDX-License-Identifier: Apache-2.0
// Listings of kernels read back: what is written, where wrong text is refused, and that no text does harm.
// (Every kernel of every op case is read back by test_ops and print_emission.)
#include "ir/kernel/device.h"
#include "ir/kernel/kernel_parse.h"
#include "unit.h"

static Arena arena;
static Diag diag;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    diag = diag_new(&arena);
    return 0;
}

static Kernel *parse_n(const char *text, size_t n)
{
    return kernel_parse(&arena, &diag, diag_add_file(&diag, "k", text, n));
}

static const char *print(const Kernel *k)
{
    Str s = str_new(&arena);
    kernel_print(k, &s);
    return str_text(&s);
}

static const char plain[] = "kernel k0_all may_alias\n"
                            "  # a, \"b\"\n"
                            "  param x: f32 read first 4\n"
                            "  param y: f32 read write own\n"
                            "  param x: bf16 read\n"
                            "  param \"the table\": u64 read moved\n"
                            "  param w: i8 read table 3\n"
                            "  text f \"y[i] = 1;\\n\"\n"
                            "  arg y 1 write\n"
                            "  number alpha 0.5\n"
                            "  size taps 3\n"
                            "  # \" led by a space\"\n"
                            "  for %1 = 0 .. 100 step 16 parallel \"i\"\n"
                            "    %2 = load f32x16 x[%1] count 7\n"
                            "    %3 = part\n"
                            "    %4 = parts\n"
                            "    %5 = lt index %3 %4\n"
                            "    %6 = select index %5 %3 7\n"
                            "    %7 = splat f32x16 -inf\n"
                            "    %8 = max f32x16 %2 %7\n"
                            "    %9 = low zip f32x16 %2 %8\n"
                            "    %10 = high zip f32x16 %2 %8\n"
                            "    %11 = hreduce add f32 %10\n"
                            "    %12 = roundcast i32x16 %9\n"
                            "    %13 = bitcast i32 %11\n"
                            "    %14 = cast f64 1.5:f16\n"
                            "    %15 = var f32 nan \"sum\"\n"
                            "    %16 = get f32 %15\n"
                            "    set %15 2.0\n"
                            "    %17 = array f32[8]\n"
                            "    astore %17 0 %16\n"
                            "    %18 = aload f32x4 %17 4\n"
                            "    point w 2 0\n"
                            "    if %5\n"
                            "      store y[%6] = %18\n"
                            "      store y[%1] count 3 = %2\n"
                            "    else\n"
                            "      prefetch x[64]\n"
                            "      custom f %1\n"
                            "    end\n"
                            "    barrier\n"
                            "    wait\n"
                            "  end\n";
static const char groups[] = "kernel \"of groups\"\n"
                             "  groups of 128 threads\n"
                             "  clusters of 2 groups\n"
                             "  shared 2048 bytes\n"
                             "  param x: f32 read\n"
                             "  param y: f32 write\n"
                             "  param z: bf16 read write\n"
                             "  for %1 = 0 .. 7 step 1 group \"row\"\n"
                             "    %2 = thread\n"
                             "    %3 = array f32[64]\n"
                             "    %4 = array f32[128] shared\n"
                             "    fetch 4 x %2 %3 4\n"
                             "    fetch 4 x %2 %3 0 once\n"
                             "    %5 = aload f32 %3 5\n"
                             "    %6 = team max f32 width 32 %5\n"
                             "    astore %4 %2 %6\n"
                             "    put 2 y 0 %3 0 once\n"
                             "    %7 = call wgmma_desc 1024 16 2\n"
                             "    %8 = call pack_bf16 1.0 %6\n"
                             "    %9 = address x[%2]\n"
                             "    device wgmma<256> %3 %7 0 1\n"
                             "    device bulk_load 0 %9 16 8\n"
                             "    device leave\n"
                             "    matrix begin 16 16\n"
                             "    matrix zero r0\n"
                             "    matrix load r4 z 0 32\n"
                             "    matrix mac i32 r1 r4 r6\n"
                             "    matrix store r0 %3 0 16\n"
                             "    matrix split z 0 16 %6\n"
                             "    matrix end\n"
                             "  end\n";

static void test_round_trip(void **state)
{
    static const char *const texts[] = {plain, groups};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const Kernel *k = parse_n(texts[i], strlen(texts[i]));
        if (k == NULL)
            diag_print(&diag, stderr, DIAG_PLAIN);
        assert_non_null(k);
        assert_string_equal(print(k), texts[i]);
    }
}

static void test_facts(void **state)
{
    (void)state;
    const Kernel *k = parse_n(plain, strlen(plain));
    assert_non_null(k);
    assert_true(k->may_alias && k->params.data[1].is_own && k->params.data[3].is_moved);
    assert_int_equal(k->params.data[0].first, 4);
    assert_int_equal(k->params.data[4].table, 4);
    assert_int_equal(k->max_lanes, 16);
    assert_int_equal(k->custom->constants.data[1].size, 3);
    k = parse_n(groups, strlen(groups));
    assert_non_null(k);
    assert_int_equal(k->group, 128);
    assert_int_equal(k->cluster, 2);
    assert_int_equal(k->shared_bytes, 2048);
}

// Names of parameters need not differ.
static void test_equal_names(void **state)
{
    static const char text[] = "kernel k\n"
                               "  param x: f32 read\n"
                               "  param x: bf16 read\n"
                               "  param y: f32 write\n"
                               "  %1 = load bf16 x@1[0]\n"
                               "  %2 = cast f32 %1\n"
                               "  store y[0] = %2\n";
    (void)state;
    const Kernel *k = parse_n(text, strlen(text));
    assert_non_null(k);
    assert_string_equal(print(k), text);
}

#define HEAD "kernel k\n  param x: f32 read write\n"

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        uint32_t at; // the first byte that is wrong, behind HEAD
        const char *message;
    } cases[] = {
        {"  %2 = thread\n", 3, "the next number, a number from 1 to 1"},
        {"  frob\n", 2, "expected an instruction"},
        {"  %1 = store x[0] = 1.0\n", 7, "expected an instruction"},
        {"  store x[%1] = 1.0\n", 11, "no value comes before"},
        {"  store z[0] = 1.0\n", 8, "no parameter 'z'"},
        {"  store x@1[0] = 1.0\n", 10, "a number from 0 to 0"},
        {"  store x[0] = 1.0 2\n", 19, "the end of the line"},
        {"  store x[0] = 1.0:f32x2\n", 19, "has one lane"},
        {"  store x[0] = 1.0:f16\n", 2, "operand"},
        {"  store x[99999999999999999999] = 1.0\n", 10, "a constant of index"},
        {"  %1 = load f32x3 x[0]\n", 2, "3 lanes"},
        {"  %1 = load f32x999 x[0]\n", 12, "expected a type"},
        {"  %1 = array f32[0]\n", 17, "a number from 1 to"},
        {"  %1 = splat i8x4 200\n", 18, "a constant of i8"},
        {"  end\n", 2, "no block is open"},
        {"  for %1 = 0 .. 4 step 0\n", 23, "a number from 1 to"},
        {"  device frob 1\n", 9, "expected a device function"},
        {"  device wgmma_wait\n", 19, "expected '<'"},
        {"  device wgmma_wait<99999999999>\n", 20, "a number from 0 to"},
        {"  device has_wgmma\n", 18, "without a value"},
        {"  matrix mac f32 r9 r4 r6\n", 18, "a number from 0 to 7"},
        {"  custom f 0\n", 11, "whose text the kernel has"},
        {"  groups of 33 threads\n", 22, "a multiple of 32"},
        {"  param y: u64 read table 7\n", 0, "a table that is a parameter"},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        diag = diag_new(&arena);
        const char *text = arena_printf(&arena, HEAD "%s", cases[i].text);
        assert_null(parse_n(text, strlen(text)));
        assert_int_equal(diag.n_errors, 1);
        const DiagItem *item = &diag.items.data[0];
        if (strstr(item->message, cases[i].message) == NULL)
            fail_msg("%s: '%s' is not in '%s'", cases[i].text, cases[i].message, item->message);
        if (cases[i].at != 0 && item->span.begin != cases[i].at + strlen(HEAD))
            fail_msg("%s: at %u, expected %u", cases[i].text, item->span.begin - (uint32_t)strlen(HEAD),
                     cases[i].at);
    }
}

// What is read has a listing that is read, whatever the text was.
static bool try_text(const char *text, size_t n)
{
    diag = diag_new(&arena);
    const Kernel *k = parse_n(text, n);
    assert_true((k == NULL) == (diag.n_errors != 0));
    if (k == NULL)
        return false;
    const char *first = print(k);
    const Kernel *back = parse_n(first, strlen(first));
    if (back == NULL)
        fail_msg("does not read back:\n%s\n%s", first, diag.items.data[0].message);
    assert_string_equal(print(back), first);
    return true;
}

static void test_truncated(void **state)
{
    static const char *const texts[] = {plain, groups};
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        for (size_t n = 0; n < strlen(texts[i]); n++) {
            arena_reset(&arena);
            char *copy = malloc(n + 1); // its own memory, so that sanitizers see what is read behind it
            assert_non_null(copy);
            memcpy(copy, texts[i], n);
            try_text(copy, n);
            free(copy);
        }
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

// Bytes, tokens and lines change places.
static void mutate(char *text, size_t n, uint64_t *random)
{
    static const char bytes[] = "%0123456789-:@[]<>=\"\\ \n#xrf\0\xff";
    for (uint32_t edits = 1 + next_random(random) % 3; edits > 0; edits--) {
        const size_t to = next_random(random) % n, from = next_random(random) % n;
        const size_t most = n - (to > from ? to : from), length = 1 + next_random(random) % 12;
        if (next_random(random) % 2 == 0)
            text[to] = bytes[next_random(random) % (sizeof bytes - 1)];
        else
            memmove(text + to, text + from, length < most ? length : most);
    }
}

static void test_mutated(void **state)
{
    static const char *const texts[] = {plain, groups};
    enum { ROUNDS = 20000 };
    uint64_t random = 1;
    uint32_t n_read = 0;
    (void)state;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const size_t n = strlen(texts[i % 2]);
        char *copy = malloc(n);
        arena_reset(&arena);
        assert_non_null(copy);
        memcpy(copy, texts[i % 2], n);
        mutate(copy, n, &random);
        n_read += try_text(copy, n);
        free(copy);
    }
    assert_true(n_read > ROUNDS / 100 && n_read < ROUNDS); // both ways are taken
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_round_trip, reset),  cmocka_unit_test_setup(test_facts, reset),
        cmocka_unit_test_setup(test_equal_names, reset), cmocka_unit_test_setup(test_refused, reset),
        cmocka_unit_test_setup(test_truncated, reset),   cmocka_unit_test_setup(test_mutated, reset),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
