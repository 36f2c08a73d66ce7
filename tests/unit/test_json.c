// SPDX-License-Identifier: Apache-2.0
// JSON models: what every member means, what must be refused and where, and limits. The whole text of
// messages is in tests/diag; here are codes and places.
#include "compiler/system/json_scan.h"
#include "ir/graph/tensor.h"
#include "json_model.h"

#include <math.h>

// The first error has this code, this path, and covers this text.
static void refuses(const char *text, DiagCode code, const char *path, const char *covered)
{
    if (import(text))
        fail_msg("accepted: %s", text);
    const DiagItem *item = &diag.items.data[0];
    const Span *span = &item->span;
    if (item->code != code)
        fail_msg("%s: %s: %s", text, diag_code_text(item->code), item->message);
    const char *found = span->path ? span->path : "";
    if (strcmp(found, path) != 0)
        fail_msg("%s: at %s, not %s: %s", text, found, path, item->message);
    char *wanted = arena_strdup(&arena, covered);
    for (char *c = wanted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    const char *source = diag.files.data[0].text + span->begin;
    if (span->end - span->begin != strlen(wanted) || memcmp(source, wanted, strlen(wanted)) != 0)
        fail_msg("%s: covers '%.*s', not '%s'", text, (int)(span->end - span->begin), source, wanted);
}

// Tests share the frame of most models: x is f32[2, 3], i is i32[4].
#define MODEL(members)                                                                                       \
    "{'rlxc':1,'inputs':{'x':{'dtype':'f32','shape':[2,3]},'i':{'dtype':'i32','shape':[4]}}," members "}"
#define NODES(nodes, out) MODEL("'nodes':[" nodes "],'outputs':['" out "']")
#define WEIGHT(members)   "{'rlxc':1,'weights':{'w':{" members "}},'outputs':['w']}"

static Tensor weight(const char *text)
{
    Graph *g = import_good(text);
    return tensor_of_const(g, g->outputs.data[0].node);
}

// --- the document --------------------------------------------------

static void test_smallest(void **state)
{
    (void)state;
    Graph *g = import_good(MODEL("'outputs':['x']"));
    assert_string_equal(g->name, "net.v1"); // from the file
    assert_int_equal(g->inputs.len, 2);
    assert_string_equal(g->outputs.data[0].name, "x");
    g = import_good(MODEL("'name':'n','outputs':{'b':'i','a':'x'}"));
    assert_string_equal(g->name, "n");
    assert_string_equal(g->outputs.data[0].name, "b");
    assert_string_equal(type_of(g, 0), "i32[4]");
    assert_string_equal(node_span(g, g->inputs.data[1]).path, "/inputs/i");
}

static void test_document_refused(void **state)
{
    (void)state;
    refuses("[]", E0102, "", "[]");
    refuses("{}", E0102, "", "{}");
    refuses(" {'rlxc':2,'outputs':['x']}\n", E0102, "/rlxc", "2");
    refuses("{'rlxc':'one','outputs':['x']}", E0102, "/rlxc", "'one'");
    refuses(MODEL("'outputs':['x'],'weight':{}"), E0102, "/weight", "{}");
    refuses(MODEL("'outputs':['x'],'outputs':['i']"), E0102, "/outputs", "['i']");
    refuses(MODEL("'outputs':['x'],'name':3"), E0102, "/name", "3");
    refuses(MODEL("'outputs':['x'],'name':''"), E0102, "/name", "''");
    refuses(MODEL("'outputs':'x'"), E0102, "/outputs", "'x'");
    refuses(MODEL("'outputs':[]"), E0102, "/outputs", "[]");
    refuses(MODEL("'outputs':['x','x']"), E0104, "/outputs/1", "'x'");
    refuses(MODEL("'outputs':{'a':'x','a':'i'}"), E0104, "/outputs/a", "'i'");
    refuses(MODEL("'outputs':['y']"), E0103, "/outputs/0", "'y'");
    refuses(MODEL("'outputs':[1]"), E0102, "/outputs/0", "1");
    refuses(MODEL("'outputs':['x'],'nodes':{}"), E0102, "/nodes", "{}");
    refuses(MODEL("'outputs':['x'],'params':[]"), E0102, "/params", "[]");
    refuses(MODEL("'outputs':['x'],'weights':{'x':{'dtype':'f32','data':1}}"), E0104, "/weights/x",
            "{'dtype':'f32','data':1}");
    assert_int_equal(diag.items.data[1].level, DIAG_NOTE);
    refuses(MODEL("'outputs':['x'],'weights':{'a/b~c':3}"), E0102, "/weights/a~1b~0c", "3");
}

static void test_syntax(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t at;
    } broken[] = {
        {"", 0},
        {"{", 1},
        {"{'a'}", 4},
        {"{'a':1,}", 7},
        {"[1,]", 3},
        {"[1 2]", 3},
        {"{'a':1}}", 7},
        {"[01]", 2},
        {"[1.]", 3},
        {"[.5]", 1},
        {"[+1]", 1},
        {"[-]", 2},
        {"[1e]", 3},
        {"[tru]", 1},
        {"[nan]", 1},
        {"['a\nb']", 3},
        {"['\\x']", 3},
        {"['\\u12g4']", 6},
        {"['\\u0000']", 8},
        {"['\\ud800']", 8},
        {"['\\udc00x']", 8},
        {"['a", 3},
        {"['\xff']", 2},
        {"['\xc0\x80']", 2},
        {"['\xed\xa0\x80']", 2},
        {"['\xe2\x82']", 2},
        {"[1]//", 3},
        {"{1:2}", 1},
        {"['\\", 3},
        {"['\\ud83d\\u0041']", 14},
        {"\xef\xbb\xbf[]", 0},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_null(import(broken[i].text));
        assert_int_equal(diag.items.data[0].code, E0101);
        if (diag.items.data[0].span.begin != broken[i].at)
            fail_msg("%s: byte %u, not %u", broken[i].text, diag.items.data[0].span.begin, broken[i].at);
    }
    const char *fine = "{\"a\":[1,-0,0.5,-1.25e+3,1E9,\"\\u00e9\\ud83d\\ude00\\n\\\"\",{},[],true,false,null,"
                       " \"\xe2\x82\xac\"]}";
    size_t at = 0;
    const char *why = NULL;
    assert_int_equal(json_check(fine, strlen(fine), &at, &why), JSON_FINE);
    assert_non_null(json_parse(&arena, fine, strlen(fine), &at));
}

static void test_limits(void **state)
{
    (void)state;
    Str deep = str_new(&arena);
    for (int i = 0; i < 100000; i++)
        str_char(&deep, '[');
    assert_null(import(str_text(&deep)));
    assert_int_equal(diag.items.data[0].code, E0004);
    refuses(MODEL("'outputs':[1111111111111111111111111111111111111111111111111111111111111]"), E0004, "",
            "");
    const char *name = arena_printf(&arena, "{'rlxc':1,'name':'%0300d','outputs':['x']}", 0);
    assert_null(import(name));
    assert_int_equal(diag.items.data[0].code, E0004);
    size_t before = arena.used; // a shape is only a claim: nothing of that size is made
    refuses(WEIGHT("'dtype':'f32','shape':[1048576,1048576],'data':[1]"), E0204, "/weights/w/data", "[1]");
    refuses(WEIGHT("'dtype':'f32','shape':[1e12]"), E0102, "/weights/w", "{'dtype':'f32','shape':[1e12]}");
    refuses(WEIGHT("'dtype':'f32','shape':[1e13],'data':[1]"), E0004, "/weights/w/shape/0", "1e13");
    assert_true(arena.used - before < 1 << 20);
}

// The number of errors is bounded, and so is the time to find their places.
static void test_many_errors(void **state)
{
    (void)state;
    Str s = str_new(&arena);
    str_add(&s, "{'rlxc':1,'nodes':[");
    for (int i = 0; i < 50000; i++)
        str_printf(&s, "%s{'name':'n%d','op':'ad','inputs':[]}", i ? "," : "", i);
    str_add(&s, "],'outputs':['n1']}");
    assert_null(import(str_text(&s)));
    assert_in_range(diag.n_errors, DIAG_MAX_ERRORS, DIAG_MAX_ERRORS + 5);
}

// --- symbols and shapes --------------------------------------------------

static void test_symbols(void **state)
{
    (void)state;
    Graph *g = import_good("{'rlxc':1,'symbols':{'n':{'min':8,'max':64,'multiple':8,'default':16},'m':{}},"
                           "'inputs':{'x':{'dtype':'f32','shape':['n','2*n + m',3]}},'outputs':['x']}");
    const Symbol *s = g->dims->symbols.data;
    assert_int_equal(g->dims->symbols.len, 2);
    assert_string_equal(s[0].name, "n");
    assert_int_equal(s[0].min, 8);
    assert_int_equal(s[0].max, 64);
    assert_int_equal(s[0].multiple, 8);
    assert_int_equal(s[0].dflt, 16);
    assert_int_equal(s[1].min, 1);
    assert_true(s[1].max == DIM_MAX_VALUE);
    assert_int_equal(s[1].multiple, 1);
    assert_true(s[0].has_dflt && !s[1].has_dflt);
    g = import_good("{'rlxc':1,'symbols':{'p':{'min':0,'max':8,'default':0}},"
                    "'inputs':{'x':{'dtype':'f32','shape':['p']}},'outputs':['x']}");
    s = g->dims->symbols.data;
    assert_true(s[0].has_dflt && s[0].dflt == 0 && s[0].min == 0);
    g = import_good("{'rlxc':1,'inputs':{'x':{'dtype':'f32','shape':['free']}},'outputs':['x']}");
    assert_string_equal(type_of(g, 0), "f32[free]");
}

#define SYMBOL(members)                                                                                      \
    "{'rlxc':1,'symbols':{'n':" members "},'inputs':{'x':{'dtype':'f32','shape':['n']}},'outputs':['x']}"

static void test_symbols_refused(void **state)
{
    (void)state;
    refuses(SYMBOL("{'min':9,'max':8}"), E0208, "/symbols/n", "{'min':9,'max':8}");
    refuses(SYMBOL("{'min':-1}"), E0208, "/symbols/n", "{'min':-1}");
    refuses(SYMBOL("{'max':2e12}"), E0208, "/symbols/n", "{'max':2e12}");
    refuses(SYMBOL("{'multiple':0}"), E0208, "/symbols/n", "{'multiple':0}");
    refuses(SYMBOL("{'min':5,'max':7,'multiple':4}"), E0208, "/symbols/n", "{'min':5,'max':7,'multiple':4}");
    refuses(SYMBOL("{'default':0}"), E0208, "/symbols/n/default", "0");
    refuses(SYMBOL("{'multiple':4,'default':6}"), E0208, "/symbols/n/default", "6");
    refuses(SYMBOL("{'mx':4}"), E0102, "/symbols/n/mx", "4");
    refuses(SYMBOL("3"), E0102, "/symbols/n", "3");
    refuses(SYMBOL("{},'n':{}"), E0104, "/symbols/n", "{}");
    refuses("{'rlxc':1,'symbols':{'n':{}},'inputs':{'x':{'dtype':'f32','shape':['m']}},'outputs':['x']}",
            E0102, "/inputs/x/shape/0", "'m'");
}

static void test_shapes_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1", "1.5", "'2*'", "true", "[]", "'9223372036854775808'"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *text = arena_printf(
            &arena, "{'rlxc':1,'inputs':{'x':{'dtype':'f32','shape':[%s]}},'outputs':['x']}", bad[i]);
        refuses(text, E0102, "/inputs/x/shape/0", bad[i]);
    }
    refuses("{'rlxc':1,'inputs':{'x':{'dtype':'f31','shape':[]}},'outputs':['x']}", E0102, "/inputs/x/dtype",
            "'f31'");
    refuses("{'rlxc':1,'inputs':{'x':{'dtype':'f32','shape':[1,1,1,1,1,1,1,1,1]}},'outputs':['x']}", E0004,
            "/inputs/x/shape", "[1,1,1,1,1,1,1,1,1]");
    refuses("{'rlxc':1,'inputs':{'x':{'dtype':'f32'}},'outputs':['x']}", E0102, "/inputs/x",
            "{'dtype':'f32'}");
    refuses("{'rlxc':1,'inputs':{'x':{'dtype':'f32','shape':[],'data':1}},'outputs':['x']}", E0102,
            "/inputs/x/data", "1");
}

// --- values --------------------------------------------------

static void test_data(void **state)
{
    (void)state;
    Tensor t = weight(WEIGHT("'dtype':'f32','data':[[1,2.5],[-0.0,'inf'],['-inf','nan']]"));
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dim[0], 3);
    assert_true(tensor_get_f64(&t, 1) == 2.5);
    assert_true(signbit(tensor_get_f64(&t, 2)));
    assert_true(isinf(tensor_get_f64(&t, 3)) && tensor_get_f64(&t, 4) == -(double)INFINITY);
    assert_true(isnan(tensor_get_f64(&t, 5)));
    assert_int_equal((uintptr_t)t.data % 16, 0);
    t = weight(WEIGHT("'dtype':'i64','shape':[2,2],'data':['9223372036854775807','-9223372036854775808',"
                      "9007199254740991,-4]"));
    assert_int_equal(t.rank, 2);
    assert_true(tensor_get_i64(&t, 0) == INT64_MAX && tensor_get_i64(&t, 1) == INT64_MIN);
    assert_true(tensor_get_i64(&t, 2) == INT64_C(9007199254740991));
    t = weight(WEIGHT("'dtype':'u64','data':['18446744073709551615']"));
    assert_true((uint64_t)tensor_get_i64(&t, 0) == UINT64_MAX);
    t = weight(WEIGHT("'dtype':'bool','data':[true,false,1,0]"));
    assert_memory_equal(t.data, "\1\0\1\0", 4);
    t = weight(WEIGHT("'dtype':'float16','shape':[],'data':1e-7"));
    assert_int_equal(t.rank, 0);
    assert_int_equal(*(uint16_t *)t.data, 2); // rounded to nearest
    t = weight(WEIGHT("'dtype':'f32','shape':[0,3],'data':[]"));
    assert_int_equal(t.numel, 0);
    t = weight(WEIGHT("'dtype':'i8','data':[[],[]]"));
    assert_int_equal(t.dim[0], 2);
    assert_int_equal(t.dim[1], 0);
    t = weight(WEIGHT("'dtype':'u8','data':[1e2,255,0]"));
    assert_int_equal(tensor_get_i64(&t, 0), 100);
}

static void test_elements_refused(void **state)
{
    (void)state;
    static const struct {
        const char *dtype, *value;
    } cases[] = {
        {"f32", "1e39"},
        {"f16", "65520"},
        {"f8e4m3fn", "449"},
        {"f8e5m2", "-1e5"},
        {"f4e2m1", "7"},
        {"i4", "8"},
        {"u2", "4"},
        {"f64", "1e999"},
        {"f32", "true"},
        {"f32", "null"},
        {"f32", "'1'"},
        {"f32", "'Inf'"},
        {"i8", "128"},
        {"i8", "-129"},
        {"u8", "-1"},
        {"u8", "256"},
        {"i32", "1.5"},
        {"i64", "9007199254740992"},
        {"i64", "'9223372036854775808'"},
        {"u64", "'18446744073709551616'"},
        {"u64", "'-1'"},
        {"u32", "4294967296"},
        {"i64", "''"},
        {"bool", "2"},
        {"bool", "'true'"},
        {"bool", "0.5"},
        {"i32", "'nan'"},
        {"f32", "{}"},
        {"u64", "''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text =
            arena_printf(&arena, WEIGHT("'dtype':'%s','data':[0,%s]"), cases[i].dtype, cases[i].value);
        refuses(text, E0102, "/weights/w/data/1", cases[i].value);
    }
}

static void test_data_refused(void **state)
{
    (void)state;
    refuses(WEIGHT("'dtype':'f32','data':[[1,2],[3]]"), E0204, "/weights/w/data/1", "[3]");
    refuses(WEIGHT("'dtype':'f32','data':[[1,2],3]"), E0102, "/weights/w/data/1", "3");
    refuses(WEIGHT("'dtype':'f32','data':[1,[2]]"), E0102, "/weights/w/data/1", "[2]");
    refuses(WEIGHT("'dtype':'f32','data':[[],[1]]"), E0204, "/weights/w/data/1", "[1]");
    refuses(WEIGHT("'dtype':'f32','data':[[[1],[2]],[[3],[4,5]]]"), E0204, "/weights/w/data/1/1", "[4,5]");
    refuses(WEIGHT("'dtype':'f32','shape':[2],'data':[1,2,3]"), E0204, "/weights/w/data", "[1,2,3]");
    refuses(WEIGHT("'dtype':'f32','shape':[3,2],'data':[[1,2,3],[4,5,6]]"), E0204, "/weights/w/data",
            "[[1,2,3],[4,5,6]]");
    refuses(WEIGHT("'dtype':'f32','data':[[[[[[[[[1]]]]]]]]]"), E0004, "/weights/w/data/0/0/0/0/0/0/0/0",
            "[1]");
    refuses(WEIGHT("'data':[1]"), E0102, "/weights/w", "{'data':[1]}");
    refuses(WEIGHT("'dtype':'f32','shape':['n'],'data':[1]"), E0207, "/weights/w/shape", "['n']");
    refuses(WEIGHT("'dtype':'f32','data':1,'file':'x.npy'"), E0102, "/weights/w/file", "'x.npy'");
    refuses(WEIGHT("'dtype':'f32','data':1,'offset':0"), E0102, "/weights/w/offset", "0");
    refuses(WEIGHT("'file':'../x.npy'"), E0102, "/weights/w/file", "'../x.npy'");
    refuses(WEIGHT("'file':'no/such.npy'"), E0001, "/weights/w/file", "'no/such.npy'");
    refuses(WEIGHT("'file':'x.npy','tensor':'t'"), E0102, "/weights/w/tensor", "'t'");
    refuses(WEIGHT("'file':'x.safetensors','offset':4"), E0102, "/weights/w/offset", "4");
    refuses(WEIGHT("'file':'x.bin','dtype':'f32'"), E0102, "/weights/w", "{'file':'x.bin','dtype':'f32'}");
}

// --- params and states --------------------------------------------------

static void test_params_and_states(void **state)
{
    (void)state;
    Graph *g = import_good(MODEL("'params':{'p':{'dtype':'f32','shape':[3]},'q':{'dtype':'i8','data':[7]}},"
                                 "'states':{'s':{'dtype':'f32','shape':[2,3],'next':'y'},"
                                 "'t':{'dtype':'i32','data':5,'next':'t'}},"
                                 "'nodes':[{'name':'y','op':'add','inputs':['x','s']}],'outputs':['y']"));
    assert_int_equal(g->params.len, 2);
    assert_int_equal(node_attr(graph_node(g, g->params.data[0]), A_param_init)->len, 0);
    const AttrVal *init = node_attr(graph_node(g, g->params.data[1]), A_param_init);
    assert_int_equal(init->len, 1);
    assert_int_equal(*(const int8_t *)init->u.blob, 7);
    assert_int_equal(g->states.data[0].next, g->outputs.data[0].node);
    assert_int_equal(g->states.data[1].next, g->states.data[1].node);
    refuses(MODEL("'outputs':['x'],'states':{'s':{'dtype':'f32','shape':[2]}}"), E0102, "/states/s",
            "{'dtype':'f32','shape':[2]}");
    refuses(MODEL("'outputs':['x'],'states':{'s':{'dtype':'f32','shape':[2],'next':'x'}}"), E0209,
            "/states/s/next", "'x'");
    refuses(MODEL("'outputs':['x'],'states':{'s':{'dtype':'f32','shape':[2],'next':'z'}}"), E0103,
            "/states/s/next", "'z'");
    refuses(MODEL("'outputs':['x'],'params':{'s':{'dtype':'f32'}}"), E0102, "/params/s", "{'dtype':'f32'}");
}

// --- nodes --------------------------------------------------

static void test_attributes(void **state)
{
    (void)state;
    Graph *g = import_good(
        "{'rlxc':1,'inputs':{'x':{'dtype':'f32','shape':['n',1,8,8]}},'weights':{'w':{'dtype':'f32',"
        "'shape':[1,1,1,1],'data':[1]}},'nodes':["
        "{'name':'c','op':'conv','inputs':['x','w',null],'pads':[1,1,1,1],'group':1},"
        "{'name':'r','op':'reshape','inputs':['c'],'shape':['n','5*20']},"
        "{'name':'h','op':'cast','inputs':['r'],'to':'f16'},"
        "{'name':'l','op':'layer_norm','inputs':['r'],'epsilon':1e-3,'axis':-1},"
        "{'name':'s','op':'reduce_sum','inputs':['l'],'axes':[1],'keepdims':true},"
        "{'name':'p','op':'pad','inputs':['s'],'pads':[0,1,0,1],'mode':'edge'}],"
        "'outputs':['h','p','l']}");
    assert_string_equal(type_of(g, 0), "f16[n, 100]");
    assert_string_equal(type_of(g, 1), "f32[n, 3]");
    assert_true(node_get_float(output(g, 2), A_layer_norm_epsilon) == 1e-3);
    assert_int_equal(node_get_int(output(g, 2), A_layer_norm_axis), 1);
    assert_string_equal(node_get_str(output(g, 1), A_pad_mode), "edge");
    assert_string_equal(node_name(g, g->outputs.data[1].node), "p");
    assert_string_equal(node_span(g, g->outputs.data[1].node).path, "/nodes/5");
}

static void test_numbers_as_operands(void **state)
{
    (void)state;
    double v = 0;
    Graph *g = import_good(NODES("{'name':'y','op':'mul','inputs':[2,'i']}", "y"));
    NodeId number = output(g, 0)->src[0];
    assert_int_equal(graph_node(g, number)->dtype, DTYPE_i32);
    assert_true(node_is_scalar_const(g, number, &v) && v == 2);
    g = import_good(NODES(
        "{'name':'b','op':'lt','inputs':['x',0.5]},{'name':'y','op':'where','inputs':['b','x',7]}", "y"));
    assert_string_equal(type_of(g, 0), "f32[2, 3]");
    g = import_good(NODES("{'name':'y','op':'where','inputs':[true,'i',7]}", "y"));
    assert_int_equal(graph_node(g, output(g, 0)->src[0])->dtype, DTYPE_bool);
    g = import_good(NODES("{'name':'y','op':'gather','inputs':['x',1],'axis':0}", "y"));
    assert_string_equal(type_of(g, 0), "f32[3]");
    refuses(NODES("{'name':'y','op':'mul','inputs':['i',0.5]}", "y"), E0102, "/nodes/0/inputs/1", "0.5");
    refuses(NODES("{'name':'y','op':'add','inputs':[1,2]}", "y"), E0205, "/nodes/0/inputs/0", "1");
    refuses(NODES("{'name':'b','op':'lt','inputs':['x',0]},{'name':'y','op':'logical_and','inputs':['b',1]}",
                  "y"),
            E0205, "/nodes/1/inputs/1", "1");
}

static void test_several_results(void **state)
{
    (void)state;
    Graph *g = import_good(
        NODES("{'op':'split','inputs':['x'],'axis':1,'sizes':[1,0,2],'outputs':['a',null,'c']}", "c"));
    assert_string_equal(type_of(g, 0), "f32[2, 2]");
    assert_int_equal(output(g, 0)->op, OP_result);
    g = import_good(NODES("{'op':'split','inputs':['x'],'axis':1,'sizes':[1,2],'outputs':[null,'c']}", "c"));
    g = import_good(NODES("{'op':'split','inputs':['x'],'axis':1,'sizes':[1,2],'name':'a'}", "a"));
    assert_string_equal(type_of(g, 0), "f32[2, 1]");
    refuses(NODES("{'op':'split','inputs':['x'],'axis':1,'sizes':[1,2],'outputs':['a','b','c']}", "a"), E0102,
            "/nodes/0/outputs/2", "'c'");
    refuses(NODES("{'op':'split','inputs':['x'],'sizes':[1,1],'outputs':['a','a']}", "a"), E0104,
            "/nodes/0/outputs/1", "'a'");
    refuses(NODES("{'op':'relu','inputs':['x'],'outputs':['a',3]}", "a"), E0102, "/nodes/0/outputs/1", "3");
}

static void test_nodes_refused(void **state)
{
    (void)state;
    refuses(NODES("7", "x"), E0102, "/nodes/0", "7");
    refuses(NODES("{'name':'y','inputs':[]}", "y"), E0102, "/nodes/0", "{'name':'y','inputs':[]}");
    refuses(NODES("{'name':'y','op':'adf','inputs':['x','x']}", "y"), E0201, "/nodes/0/op", "'adf'");
    refuses(NODES("{'name':'y','op':'const','inputs':[]}", "y"), E0201, "/nodes/0/op", "'const'");
    refuses(NODES("{'name':'y','op':'relu'}", "y"), E0102, "/nodes/0", "{'name':'y','op':'relu'}");
    refuses(NODES("{'op':'relu','inputs':['x']}", "y"), E0102, "/nodes/0", "{'op':'relu','inputs':['x']}");
    refuses(NODES("{'op':'relu','inputs':['x'],'name':'y','outputs':['z']}", "y"), E0102, "/nodes/0/outputs",
            "['z']");
    refuses(NODES("{'name':'y','op':'relu','inputs':'x'}", "y"), E0102, "/nodes/0/inputs", "'x'");
    refuses(NODES("{'name':'y','op':'relu','inputs':[['x']]}", "y"), E0102, "/nodes/0/inputs/0", "['x']");
    refuses(NODES("{'name':'y','op':'relu','inputs':['z']}", "y"), E0103, "/nodes/0/inputs/0", "'z'");
    refuses(NODES("{'name':'y','op':'relu','inputs':['z']},{'name':'z','op':'relu','inputs':['x']}", "y"),
            E0103, "/nodes/0/inputs/0", "'z'");
    assert_non_null(strstr(diag.items.data[0].message, "not defined yet"));
    refuses(NODES("{'name':'y','op':'relu','inputs':['x','x']}", "y"), E0202, "/nodes/0/inputs", "['x','x']");
    refuses(NODES("{'name':'y','op':'softmax','inputs':['x'],'axes':1}", "y"), E0203, "/nodes/0/axes", "1");
    refuses(NODES("{'name':'y','op':'softmax','inputs':['x'],'axis':'a'}", "y"), E0102, "/nodes/0/axis",
            "'a'");
    refuses(NODES("{'name':'y','op':'softmax','inputs':['x'],'axis':1,'axis':1}", "y"), E0102,
            "/nodes/0/axis", "1");
    refuses(NODES("{'name':'y','op':'softmax','inputs':['x'],'axis':2}", "y"), E0203, "/nodes/0",
            "{'name':'y','op':'softmax','inputs':['x'],'axis':2}");
    refuses(NODES("{'name':'x','op':'relu','inputs':['x']}", "x"), E0104, "/nodes/0",
            "{'name':'x','op':'relu','inputs':['x']}");
    refuses(NODES("{'name':'y','op':'cast','inputs':['x'],'to':'f12'}", "y"), E0102, "/nodes/0/to", "'f12'");
    refuses(NODES("{'name':'y','op':'reshape','inputs':['x'],'shape':['q']}", "y"), E0102, "/nodes/0/shape/0",
            "'q'");
    refuses(NODES("{'name':'y','op':'transpose','inputs':['x'],'perm':[0,1.5]}", "y"), E0102,
            "/nodes/0/perm/1", "1.5");
    refuses(NODES("{'name':'y','op':'matmul','inputs':['x','x']}", "y"), E0204, "/nodes/0",
            "{'name':'y','op':'matmul','inputs':['x','x']}");
}

// Who uses a wrong value is not wrong.
static void test_errors_do_not_cascade(void **state)
{
    (void)state;
    assert_null(
        import(NODES("{'name':'a','op':'matmul','inputs':['x','x']},{'name':'b','op':'relu','inputs':['a']},"
                     "{'op':'split','inputs':['b'],'sizes':[1,1],'outputs':['c','d']},"
                     "{'name':'e','op':'add','inputs':['d',1]}",
                     "e")));
    assert_int_equal(diag.n_errors, 1);
}

// --- sub-graphs --------------------------------------------------

#define BRANCH(op)                                                                                           \
    "{'inputs':{'a':{'dtype':'f32','shape':[2,3]}},'nodes':[{'name':'b','op':'" op                           \
    "','inputs':['a']}],'outputs':['b']}"

static void test_subgraphs(void **state)
{
    (void)state;
    Graph *g =
        import_good("{'rlxc':1,'inputs':{'f':{'dtype':'bool','shape':[]},'x':{'dtype':'f32','shape':[2,3]}},"
                    "'nodes':[{'name':'y','op':'if','inputs':['f','x'],'then':" BRANCH(
                        "relu") ",'else':" BRANCH("neg") "}],'outputs':['y']}");
    assert_string_equal(type_of(g, 0), "f32[2, 3]");
    const Graph *then = node_attr(output(g, 0), A_if_then)->u.graph;
    assert_int_equal(output(then, 0)->op, OP_relu);
    refuses("{'rlxc':1,'inputs':{'f':{'dtype':'bool','shape':[]},'x':{'dtype':'f32','shape':[2,3]}},"
            "'nodes':[{'name':'y','op':'if','inputs':['f','x'],'then':" BRANCH("relu") ",'else':" BRANCH(
                "nag") "}],'outputs':['y']}",
            E0201, "/nodes/0/else/nodes/0/op", "'nag'");
    refuses(
        "{'rlxc':1,'inputs':{'f':{'dtype':'bool','shape':[]}},'nodes':[{'name':'y','op':'if','inputs':['f'],"
        "'then':{'outputs':['f']},'else':{'outputs':['f']}}],'outputs':['y']}",
        E0103, "/nodes/0/then/outputs/0", "'f'");
}

static void test_subgraphs_nest_to_a_limit(void **state)
{
    (void)state;
    Str s = str_new(&arena);
    const char *c = "'c':{'dtype':'bool','shape':[]}";
    str_printf(&s, "{'rlxc':1,'inputs':{%s},'nodes':[", c);
    for (int i = 0; i < 9; i++)
        str_printf(&s,
                   "{'name':'y','op':'if','inputs':['c','c'],'else':{'inputs':{%s},'outputs':['c']},"
                   "'then':{'inputs':{%s},'nodes':[",
                   c, c);
    for (int i = 0; i < 9; i++)
        str_add(&s, "],'outputs':['c']}}");
    str_add(&s, "],'outputs':['y']}");
    assert_null(import(str_text(&s)));
    assert_int_equal(diag.items.data[0].code, E0004);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_smallest, reset),
        cmocka_unit_test_teardown(test_document_refused, reset),
        cmocka_unit_test_teardown(test_syntax, reset),
        cmocka_unit_test_teardown(test_limits, reset),
        cmocka_unit_test_teardown(test_many_errors, reset),
        cmocka_unit_test_teardown(test_symbols, reset),
        cmocka_unit_test_teardown(test_symbols_refused, reset),
        cmocka_unit_test_teardown(test_shapes_refused, reset),
        cmocka_unit_test_teardown(test_data, reset),
        cmocka_unit_test_teardown(test_elements_refused, reset),
        cmocka_unit_test_teardown(test_data_refused, reset),
        cmocka_unit_test_teardown(test_params_and_states, reset),
        cmocka_unit_test_teardown(test_attributes, reset),
        cmocka_unit_test_teardown(test_numbers_as_operands, reset),
        cmocka_unit_test_teardown(test_several_results, reset),
        cmocka_unit_test_teardown(test_nodes_refused, reset),
        cmocka_unit_test_teardown(test_errors_do_not_cascade, reset),
        cmocka_unit_test_teardown(test_subgraphs, reset),
        cmocka_unit_test_teardown(test_subgraphs_nest_to_a_limit, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
