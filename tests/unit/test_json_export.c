// SPDX-License-Identifier: Apache-2.0
// Graphs to JSON and back: the same graph, the same text, and names that JSON models accept.
#include "compiler/system/rawfile.h"
#include "ir/text/text.h"
#include "json_model.h"

static const char *text_of(Graph *g)
{
    Str s = str_new(&arena);
    graph_print(graph_compact(g, NULL), &s, TEXT_FULL);
    return str_text(&s);
}

static Graph *load(const char *path)
{
    Graph *g = NULL;
    diag = diag_new(&arena);
    if (!import_model(&arena, &diag, path, &g)) {
        diag_print(&diag, stderr, DIAG_PLAIN);
        fail_msg("%s", path);
    }
    return g;
}

static const char *read_text(const char *path)
{
    RawFile f;
    assert_true(rawfile_open(&arena, &diag, (Span){0}, path, &f));
    return arena_strndup(&arena, f.data, f.len);
}

// Graph to JSON to graph is the identity, but for node numbers: constants that stood between nodes move up.
// So the second generation is compared as graph and text, and the first one by its output types and node
// count.
static void check_round_trip(Graph *g)
{
    char folder[] = "/tmp/rlxc-json-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *one = arena_printf(&arena, "%s/m.json", folder);
    const char *weights = arena_printf(&arena, "%s/m.safetensors", folder);
    assert_true(import_export_json(g, one, &diag));
    const char *first_text = read_text(one);
    Graph *first = load(one);
    const char *first_graph = text_of(first);
    assert_true(import_export_json(first, one, &diag));
    assert_string_equal(read_text(one), first_text);
    assert_string_equal(text_of(load(one)), first_graph);
    assert_int_equal(graph_compact(first, NULL)->nodes.len, graph_compact(g, NULL)->nodes.len);
    assert_int_equal(first->outputs.len, g->outputs.len);
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        assert_string_equal(first->outputs.data[i].name, g->outputs.data[i].name);
        assert_string_equal(type_of(first, i), type_of(g, i));
    }
    unlink(one);
    unlink(weights);
    assert_int_equal(rmdir(folder), 0); // nothing else was left there
}

static void test_round_trip_of_models(void **state)
{
    (void)state;
    static const char *const names[] = {"gelu_example", "mlp",         "lstm",
                                        "lstm_stream",  "transformer", "digits/digits", "voice/voice"};
    const char *source = getenv("RLXC_SOURCE");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Graph *g = load(arena_printf(&arena, "%s/models/%s.json", source ? source : ".", names[i]));
        assert_null(graph_verify(g, STAGE_IMPORTED));
        check_round_trip(g);
    }
}

static void test_round_trip_of_everything(void **state)
{
    (void)state;
    Graph *g = import_good(
        "{'rlxc':1,'name':'all "
        "\\u00e9','symbols':{'hits':{'min':0,'max':9},'n':{'min':0,'max':64,'multiple':4,'default':8},'a "
        "b':{}},"
        "'inputs':{'x':{'dtype':'f32','shape':['n','2*n + 1']},'f':{'dtype':'bool','shape':[]},"
        "'z':{'dtype':'i8','shape':['a b','\\'a b\\' + n']}},"
        "'weights':{'big':{'dtype':'f16','data':[[1,2,3],[4,5,6],[7,8,9],[10,11,12],[13,14,15],[16,17,1e-7]]}"
        ","
        "'nan':{'dtype':'f32','data':[1,'nan','inf']},'i':{'dtype':'i64','data':['9223372036854775807',-3]},"
        "'u':{'dtype':'u64','data':['18446744073709551615']},'d':{'dtype':'f64','data':[0.1,1e300,'-inf',-0."
        "0]},"
        "'t':{'dtype':'f32','data':[0.1,1e-45,3.4028235e38,16777217]},'b':{'dtype':'bool','data':[true,false]"
        "},"
        "'trips':{'dtype':'i64','data':[3]},'e':{'dtype':'f32','shape':[2,0],'data':[]}},"
        "'params':{'p':{'dtype':'f32','shape':[]},'q':{'dtype':'f32','data':[1,2]}},"
        "'states':{'s':{'dtype':'f32','shape':[1],'data':[3],'next':'s2'},'k':{'dtype':'i32','shape':[],'"
        "next':'k2'}},"
        "'nodes':[{'name':'y','op':'mul','inputs':['x',0.1]},{'name':'y2','op':'mul','inputs':['y','p']},"
        "{'op':'split','inputs':['big'],'axis':1,'sizes':[1,1,1],'outputs':[null,'l','r']},"
        "{'name':'s2','op':'add','inputs':['s',1]},{'name':'k2','op':'add','inputs':['k',1]},"
        "{'name':'c','op':'clamp','inputs':['y',0,6]},{'name':'w','op':'where','inputs':['f','c',2.5]},"
        "{'name':'v','op':'if','inputs':['f','q'],'then':{'inputs':{'a':{'dtype':'f32','shape':[2]}},'nodes':"
        "["
        "{'name':'b','op':'mul','inputs':['a',3]},{'name':'h','op':'reduce_max','inputs':['a']},"
        "{'name':'g','op':'is_nan','inputs':['h']}],'outputs':['b'],'checks':[{'cond':'g','message':'inner'}]"
        "},'else':{'inputs':{'a':{'dtype':'f32','"
        "shape':[2]}},"
        "'weights':{'long':{'dtype':'f32','data':[[1,2,3,4,5,6,7,8,9],[1,2,3,4,5,6,7,8,9]]}},"
        "'nodes':[{'name':'m','op':'reduce_sum','inputs':['long'],'axes':[1]},{'name':'o','op':'add','inputs'"
        ":['a','m']}],"
        "'outputs':{'b':'o'}}},"
        "{'name':'at','op':'nonzero','inputs':['q'],'size':['hits']},{'op':'loop','inputs':['trips','f','s','"
        "q'],'carried':1,'max_trips':[4],'body':{'inputs':{'i':{'"
        "dtype':'i64','shape':[]},"
        "'go':{'dtype':'bool','shape':[]},'s':{'dtype':'f32','shape':[1]},'x':{'dtype':'f32','shape':[2]}},"
        "'nodes':[{'name':'n','op':'neg','inputs':['s']}],'outputs':{'go':'go','s':'n','row':'x'}},'outputs':"
        "['l1','l2','l3']}],"
        "'extents':[{'value':'trips','size':['hits',9]}],'outputs':{'at':'at','one':'w','two':'y2','l':'l','"
        "nan':'nan','i':'i','u':'u','d':'d','t':'t','b':'b','e':'e',"
        "'v':'v','l2':'l2','l3':'l3',"
        "'z':'z'},'checks':[{'cond':'f','message':'the flag'}]}");
    check_round_trip(g);
}

// Names from elsewhere (here: IR text) need not be names in JSON.
static void test_export_cleans_names(void **state)
{
    (void)state;
    diag = diag_new(&arena);
    Graph *g = graph_new(&arena, &diag, "");
    const char *wide = arena_printf(&arena, "%0400d\xc3\xa9", 0);
    Shape s = shape_of(1, (Dim[]){2});
    NodeId a = graph_input(g, "a\nb", DTYPE_f32, &s, (Span){0}),
           b = graph_input(g, "a_b", DTYPE_f32, &s, (Span){0});
    NodeId c = graph_input(g, wide, DTYPE_f32, &s, (Span){0}),
           d = graph_input(g, "\xff\"\\", DTYPE_f32, &s, (Span){0});
    graph_output(g, "o\x01", graph_op2(g, OP_add, graph_op2(g, OP_add, a, b), graph_op2(g, OP_add, c, d)));
    graph_output(g, "o_", a);
    char path[] = "/tmp/rlxc-name-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(import_export_json(g, path, &diag));
    Graph *back = load(path);
    assert_string_equal(node_name(back, back->inputs.data[0]), "a_b");
    assert_string_equal(node_name(back, back->inputs.data[1]), "a_b_2");
    assert_string_equal(back->outputs.data[0].name, "o_");
    assert_string_equal(back->outputs.data[1].name, "o__2");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_round_trip_of_models, reset),
        cmocka_unit_test_teardown(test_round_trip_of_everything, reset),
        cmocka_unit_test_teardown(test_export_cleans_names, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
