// SPDX-License-Identifier: Apache-2.0
// The text form: graphs print and parse back to the same nodes, bits included; wrong text is refused with a
// place.
#include "graph_fixture.h"
#include "base/quote.h"
#include "ir/text/text.h"

static const char *print(Fixture *f, const Graph *g)
{
    Str s = str_new(&f->arena);
    graph_print(g, &s, TEXT_FULL);
    return str_text(&s);
}

static bool try_parse(Fixture *f, const char *text, size_t len, Graph **out)
{
    return graph_parse(&f->arena, &f->diag, diag_add_file(&f->diag, "test.ir", text, len), out);
}

static Graph *parse(Fixture *f, const char *text)
{
    Graph *g = NULL;
    if (!try_parse(f, text, strlen(text), &g))
        assert_no_error(f);
    assert_non_null(g);
    return g;
}

// The text of a graph is the text of what it parses to; then the graphs have the same nodes under the same
// ids.
static Graph *assert_round_trip(Fixture *f, const Graph *g)
{
    const char *text = print(f, g);
    Graph *back = parse(f, text);
    assert_string_equal(print(f, back), text);
    assert_int_equal(back->nodes.len, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *a = graph_node(g, id), *b = graph_node(back, id);
        assert_int_equal(a->op, b->op);
        assert_int_equal(a->n_src, b->n_src);
        assert_memory_equal(a->src, b->src, a->n_src * sizeof *a->src);
        assert_int_equal(a->n_results, b->n_results);
        if (g->labels.data[id])
            assert_string_equal(g->labels.data[id], back->labels.data[id]);
    }
    return back;
}

static const char all_kinds[] =
    "graph \"all kinds\" {\n"
    "  symbol batch [1, 64] multiple 1\n"
    "  symbol \"seq len\" [0, 128] multiple 8 default 64\n"
    "  symbol hits [0, 8192] multiple 1\n"
    "  %1 = input \"image\" : f32[batch, 1, 8, 8]\n"
    "  %2 = const : f32[2] = {1.0, -0.5}\n"
    "  %3 = param \"weight\" : f32[2, 1, 3, 3] = "
    "hex\"3f8000003f8000003f8000003f8000003f8000003f8000003f8000003f8000003f800000"
    "3f8000003f8000003f8000003f8000003f8000003f8000003f8000003f8000003f800000\"\n"
    "  %4 = conv(%1, %3, %2) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1]} : f32[batch, 2, 8, "
    "8]"
    "   # conv1\n"
    "  %5 = state \"k\" : f32[batch, 128]\n"
    "  %6 = reshape(%4) {shape = [batch, 128]} : f32[batch, 128]   # \" odd label\\n\"\n"
    "  %7 = softmax(%6) {axis = 0} : f32[batch, 128]\n"
    "  %8 = cast(%7) {to = f16} : f16[batch, 128]\n"
    "  %9 = param \"unset\" : i8[\"seq len\", batch + 1]\n"
    "  %10 = layer_norm(%6) {axis = 1, epsilon = 0.001} : f32[batch, 128]\n"
    "  %11 = reduce_max(%6) {axes = [0, 1]} : f32[]\n"
    "  %12 = is_nan(%11) : bool[]\n"
    "  %13 = nonzero(%8) {size = [hits]} : i64[2, hits]\n"
    "  %14 = const : i64[] = {5}\n"
    "  state %5 -> %7\n"
    "  output \"y\" = %8\n"
    "  output \"z\" = %10\n"
    "  output \"places\" = %13\n"
    "  extent %14 [hits, 128*batch]\n"
    "  check %12 \"a \\\"quoted\\\" message\"\n"
    "}\n";

static void test_all_kinds_of_lines(void **state)
{
    Fixture *f = *state;
    Graph *g = parse(f, all_kinds);
    assert_string_equal(print(f, g), all_kinds);
    assert_round_trip(f, g);
    assert_string_equal(g->name, "all kinds");
    assert_int_equal(g->dims->symbols.data[1].dflt, 64);
    assert_string_equal(g->labels.data[4], "conv1");
    assert_string_equal(g->labels.data[6], " odd label\n");
    assert_int_equal(g->states.data[0].next, 7);
    Span span = node_span(g, 7);
    assert_memory_equal(all_kinds + span.begin, "%7 = softmax(", 13);
    assert_int_equal(all_kinds[span.end], '\n');
}

static void test_several_results_and_sub_graphs(void **state)
{
    Fixture *f = *state;
    Graph *g = parse(f, "graph \"g\" {\n"
                        "  %1 = input \"x\" : f32[2, 6]\n"
                        "  %2 = input \"c\" : bool[]\n"
                        "  %3 = split(%1) {axis = 1, sizes = [1, 2, 3]} : (f32[2, 1], f32[2, 2], f32[2, 3])\n"
                        "  %4 = result(%3) {index = 2} : f32[2, 3]\n"
                        "  %5 = if(%2, %4) {then = graph \"a\" {\n"
                        "    %1 = input \"x\" : f32[2, 3]\n"
                        "    %2 = exp(%1) : f32[2, 3]\n"
                        "    output \"y\" = %2\n"
                        "  }, else = graph \"b\" {\n"
                        "    %1 = input \"x\" : f32[2, 3]\n"
                        "    output \"y\" = %1\n"
                        "  }} : f32[2, 3]\n"
                        "  output \"y\" = %5\n"
                        "}\n");
    Graph *back = assert_round_trip(f, g);
    assert_int_equal(back->depth, 1);
    assert_true(strstr(print(f, g), "} : f32[2, 3]\n  output") != NULL);
}

static void test_absent_operands(void **state)
{
    Fixture *f = *state;
    Graph *g = parse(f, "graph \"g\" {\n"
                        "%1 = input \"x\" : f32[2, 6]\n"
                        "%2 = input \"b\" : f32[6]\n"
                        "%3 = layer_norm(%1, _, %2)\n"
                        "output \"y\" = %3 }");
    assert_int_equal(graph_node(g, 3)->src[1], 0);
    assert_non_null(strstr(print(f, g), "layer_norm(%1, _, %2)"));
    assert_round_trip(f, g);
}

// --- constants ---

static Graph *with_constant(Fixture *f, DType t, const void *data, int64_t n)
{
    Graph *g = graph_new(&f->arena, &f->diag, "c");
    Dim dim[] = {n};
    Shape s = shape_of(1, dim);
    graph_output(g, "y", graph_const(g, t, &s, data, type_bytes(t, &s), (Span){0}));
    assert_no_error(f);
    return g;
}

static void assert_constant_round_trip(Fixture *f, DType t, const void *data, int64_t n, const char *shown)
{
    Graph *g = with_constant(f, t, data, n);
    if (!strstr(print(f, g), shown))
        fail_msg("'%s' is not in '%s'", shown, print(f, g));
    Graph *back = assert_round_trip(f, g);
    const AttrVal *v = node_attr(graph_node(back, 1), A_const_data);
    assert_memory_equal(v->u.blob, data, v->len);
}

static void test_constants_of_every_type(void **state)
{
    Fixture *f = *state;
    const float f32[] = {0.1f, -0.0f, 1e-45f, 3.4028235e38f, 16777216.0f, 1.0f / 3};
    const double f64[] = {0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3};
    const uint16_t half[] = {0x0001, 0x3c00, 0x8000, 0x7bff, 0x2e66};
    const int64_t i64[] = {INT64_MIN, INT64_MAX, -1};
    const uint64_t u64[] = {UINT64_MAX, 0};
    const int8_t i8[] = {-128, 127};
    const uint8_t u8[] = {255, 0}, b[] = {1, 0};
    assert_constant_round_trip(f, DTYPE_f32, f32, 6, "{0.1, -0.0, 1e-45, ");
    assert_constant_round_trip(f, DTYPE_f64, f64, 5, "{0.1, -0.0, 5e-324, ");
    assert_constant_round_trip(f, DTYPE_f16, half, 5, "1.0, -0.0, 65504.0, ");
    assert_constant_round_trip(f, DTYPE_bf16, half, 5, "{");
    assert_constant_round_trip(f, DTYPE_i64, i64, 3, "{-9223372036854775808, 9223372036854775807, -1}");
    assert_constant_round_trip(f, DTYPE_u64, u64, 2, "{18446744073709551615, 0}");
    assert_constant_round_trip(f, DTYPE_i8, i8, 2, "{-128, 127}");
    assert_constant_round_trip(f, DTYPE_u8, u8, 2, "{255, 0}");
    assert_constant_round_trip(f, DTYPE_bool, b, 2, "{true, false}");
    assert_constant_round_trip(f, DTYPE_f32, f32, 0, "{}");
}

static void test_special_floats(void **state)
{
    Fixture *f = *state;
    const uint32_t plain[] = {0x7f800000, 0xff800000, 0x7fc00000}, payload[] = {0x7fc00001},
                   signalling[] = {0x7f800001};
    const uint16_t half_payload[] = {0x7e01, 0xfe00};
    assert_constant_round_trip(f, DTYPE_f32, plain, 3, "{inf, -inf, nan}");
    assert_constant_round_trip(f, DTYPE_f32, payload, 1, "hex\"7fc00001\"");
    assert_constant_round_trip(f, DTYPE_f32, signalling, 1, "hex\"7f800001\"");
    assert_constant_round_trip(f, DTYPE_f16, half_payload, 2, "hex\"7e01fe00\"");
}

// Every 16-bit pattern survives, and so do pseudo-random f32 patterns.
static void test_all_bit_patterns(void **state)
{
    Fixture *f = *state;
    uint16_t half[16];
    uint32_t single[16], seed = 1;
    for (uint32_t i = 0; i < 65536; i += 16 * 17) {
        for (uint32_t k = 0; k < 16; k++) {
            half[k] = (uint16_t)(i + 17 * k);
            single[k] = seed = seed * 1664525 + 1013904223;
        }
        assert_constant_round_trip(f, DTYPE_f16, half, 16, "");
        assert_constant_round_trip(f, DTYPE_bf16, half, 16, "");
        assert_constant_round_trip(f, DTYPE_f32, single, 16, "");
    }
}

static void test_elided_constants_do_not_parse(void **state)
{
    Fixture *f = *state;
    float data[17] = {0};
    Str s = str_new(&f->arena);
    Graph *out = NULL;
    graph_print(with_constant(f, DTYPE_f32, data, 17), &s, TEXT_ELIDE);
    assert_non_null(strstr(str_text(&s), "f32[17] = ...\n"));
    assert_false(try_parse(f, s.data, s.len, &out));
    assert_error(f, E0107, "expected '{'");
}

static void test_float_attributes_keep_their_bits(void **state)
{
    Fixture *f = *state;
    Graph *g = parse(f, "graph \"g\" { %1 = input \"x\" : f32[2]\n"
                        "%2 = rms_norm(%1) {epsilon = 1e-300}\n"
                        "%3 = rms_norm(%1) {epsilon = -0.0}\n"
                        "output \"y\" = %2\n output \"z\" = %3 }");
    assert_non_null(strstr(print(f, g), "epsilon = 1e-300"));
    assert_non_null(strstr(print(f, g), "epsilon = -0.0"));
    assert_round_trip(f, g);
}

// --- wrong text ---

typedef struct WrongRow {
    const char *text;
    size_t at; // byte that the caret marks
    DiagCode code;
    const char *message;
} WrongRow;

#define X "graph \"g\" {\n%1 = input \"x\" : f32[2]\n" // 39 bytes
enum { AFTER_X = sizeof X - 1 };

static void test_wrong_text(void **state)
{
    Fixture *f = *state;
    static const WrongRow rows[] = {
        {"", 0, E0107, "expected 'graph'"},
        {"graph g", 6, E0107, "in quotes"},
        {"graph \"g", 8, E0107, "quotes"},
        {"graph \"g\" {", 11, E0107, "expected a node"},
        {"graph \"g\" {} x", 13, E0107, "expected the end"},
        {"graph \"g\" { hello }", 12, E0107, "expected a node"},
        {X "%1 = exp(%1) }", AFTER_X, E0104, "%1 is defined twice"},
        {X "%2 = exp(%3) }", AFTER_X + 9, E0103, "no line before defines %3"},
        {X "%2 = nothing(%1) }", AFTER_X + 5, E0201, "no operator 'nothing'"},
        {X "%2 = exp(%1 %1) }", AFTER_X + 12, E0107, "expected ','"},
        {X "%2 = exp(%1, %1) }", AFTER_X, E0202, "needs 1 input, got 2"},
        {X "%2 = exp(%1) {axis = 1} }", AFTER_X + 14, E0203, "no attribute 'axis'"},
        {X "%2 = softmax(%1) {axis = 0, axis = 0} }", AFTER_X + 28, E0107, "twice"},
        {X "%2 = softmax(%1) {axis = x} }", AFTER_X + 25, E0107, "integer"},
        {X "%2 = softmax(%1) {axis = 5} }", AFTER_X, E0203, "out of range"},
        {X "%2 = cast(%1) {to = f31} }", AFTER_X + 20, E0107, "'f31' is not an element type"},
        {X "%2 = exp(%1) : f32[3] }", AFTER_X, E0107, "result 0 is f32[2], the line says f32[3]"},
        {X "%2 = exp(%1) : (f32[2], f32[2]) }", AFTER_X, E0107, "2 types"},
        {X "%2 = reduce_sum(%1) {keepdims = 1} }", AFTER_X + 32, E0107, "true or false"},
        {X "%2 = const : f32[2] }", AFTER_X + 20, E0107, "expected '='"},
        {X "%2 = const : f32[2] = {1} }", AFTER_X + 24, E0107, "expected ','"},
        {X "%2 = const : f32[2] = {1, 2, 3} }", AFTER_X + 27, E0107, "expected '}'"},
        {X "%2 = const : u8[1] = {256} }", AFTER_X + 22, E0107, "type u8"},
        {X "%2 = const : i8[1] = {-129} }", AFTER_X + 22, E0107, "type i8"},
        {X "%2 = const : bool[1] = hex\"02\" }", AFTER_X + 27, E0107, "2 digits"},
        {X "%2 = const : f32[1] = hex\"0000000g\" }", AFTER_X + 26, E0107, "8 digits"},
        {X "%2 = const : f32[1] = hex\"000000001\" }", AFTER_X + 34, E0107, "after 1 values"},
        {X "%2 = const : f32[1099511627776] = hex\"00\" }", AFTER_X + 38, E0107, "the text ends before"},
        {X "%2 = const : bool[1099511627776] = {true} }", AFTER_X + 36, E0107, "the text ends before"},
        {X "%2 = const : f32[9999999999999] = {0} }", AFTER_X + 32, E0004, "too large"},
        {X "%2 = const : f32[1048576, 1048577] = {0} }", AFTER_X + 35, E0004, "too large"},
        {X "%2 = input \"y\" : f32[n] }", AFTER_X + 21, E0107, "known symbols"},
        {X "%2 = input \"y\" : f32[1, 1, 1, 1, 1, 1, 1, 1, 1] }", AFTER_X + 20, E0107, "9 axes"},
        {X "%2 = input \"x\" : f32[1] }", AFTER_X, E0104, "input 'x'"},
        {X "symbol n [5, 4]\n }", AFTER_X + 7, E0208, "min <= max"},
        {X "symbol n [1, 4] multiple 0\n }", AFTER_X + 7, E0208, "1 <= multiple"},
        {X "symbol n [1, 4] default 9\n }", AFTER_X + 7, E0208, "default"},
        {X "symbol n [1, 4]\nsymbol n [1, 4] }", AFTER_X + 23, E0104, "already a symbol"},
        {X "state %1 -> %1 }", AFTER_X + 6, E0209, "not a state"},
        {X "%2 = state \"s\" : f32[3] state %2 -> %1 }", AFTER_X + 30, E0209, "another type"},
        {X "output \"y\" = %1 output \"y\" = %1 }", 12, E0104, "two outputs"},
        {X "output \"y\" = %99999999999999999999 }", AFTER_X + 14, E0107, "number of a node"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Graph *g = NULL;
        assert_false(try_parse(f, rows[i].text, strlen(rows[i].text), &g));
        assert_int_equal(f->diag.n_errors, 1);
        if (f->diag.items.data[0].span.begin != rows[i].at)
            fail_msg("'%s' is marked at %u, not %zu", rows[i].text, f->diag.items.data[0].span.begin,
                     rows[i].at);
        assert_error(f, rows[i].code, rows[i].message);
    }
}

static void test_nesting_is_limited(void **state)
{
    Fixture *f = *state;
    Str s = str_new(&f->arena);
    Graph *g = NULL;
    str_add(&s, "graph \"g\" {");
    for (int i = 0; i < 100000; i++)
        str_add(&s, "%1 = input \"c\" : bool[] %2 = if(%1) {then = graph \"t\" {");
    assert_false(try_parse(f, s.data, s.len, &g));
    assert_error(f, E0004, "nest deeper");
}

// Damaged text: any answer but a crash will do. Bytes are replaced, parts cut out, doubled and cut off.
static void test_damaged_text(void **state)
{
    static const char letters[] = "%=(){}[],:\"0129-_aefx \n#.>*/";
    Fixture *f = *state;
    size_t len = sizeof all_kinds - 1;
    uint32_t seed = 7, n_good = 0;
    for (int round = 0; round < 6000; round++) {
        Fixture fresh = {0};
        char text[sizeof all_kinds * 2];
        size_t n = len;
        memcpy(text, all_kinds, n);
        for (int k = 0; k <= round % 3; k++) {
            seed = seed * 1664525 + 1013904223;
            size_t at = (seed >> 8) % n, size = 1 + (seed >> 3) % 5;
            seed = seed * 1664525 + 1013904223;
            if (seed >> 30 == 0 && at + size < n) {
                memmove(text + at, text + at + size, n - at - size);
                n -= size;
            } else if (seed >> 30 == 1 && at + size < n && n + size < sizeof text) {
                memmove(text + at + size, text + at, n - at);
                n += size;
            } else if (seed >> 30 == 2 && seed % 16 == 0) {
                n = at + 1;
            } else {
                text[at] = letters[(seed >> 8) % (sizeof letters - 1)];
            }
        }
        fresh.diag = diag_new(&fresh.arena);
        Graph *g = NULL;
        char *exact = arena_copy(&f->arena, text, n); // so that a read behind the end is seen
        bool ok = try_parse(&fresh, exact, n, &g);
        assert_true(ok == (fresh.diag.n_errors == 0));
        if (ok && ++n_good % 16 == 0)
            assert_round_trip(&fresh, g);
        arena_free(&fresh.arena);
    }
    assert_true(n_good > 10);
}

static void test_quotes(void **state)
{
    Fixture *f = *state;
    static const char *const names[] = {"", "plain", "a\"b\\c", "\n\t\r\x01\x7f", "caf\xc3\xa9"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Str s = str_new(&f->arena);
        const char *back = NULL;
        size_t pos = 0;
        quote_print(&s, names[i]);
        assert_true(quote_parse(&f->arena, s.data, s.len, &pos, &back));
        assert_int_equal(pos, s.len);
        assert_string_equal(back, names[i]);
    }
    assert_true(quote_is_plain("a.b_1"));
    assert_false(quote_is_plain(""));
    assert_false(quote_is_plain("1a"));
    assert_false(quote_is_plain("a b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_all_kinds_of_lines),
        TEST(test_several_results_and_sub_graphs),
        TEST(test_absent_operands),
        TEST(test_constants_of_every_type),
        TEST(test_special_floats),
        TEST(test_all_bit_patterns),
        TEST(test_elided_constants_do_not_parse),
        TEST(test_float_attributes_keep_their_bits),
        TEST(test_wrong_text),
        TEST(test_nesting_is_limited),
        TEST(test_damaged_text),
        TEST(test_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
