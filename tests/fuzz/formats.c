// SPDX-License-Identifier: Apache-2.0
// The readers of model and weight files, and what is worth inserting into each format.
#include "compiler/grammar/grammar.h"
#include "compiler/import/gguf/gguf_model.h"
#include "compiler/import/import.h"
#include "compiler/import/onnx/onnx.h"
#include "compiler/import/tensors/npy.h"
#include "compiler/import/tensors/safetensors.h"
#include "compiler/import/tensors/tensor_bytes.h"
#include "compiler/import/tflite/tflite.h"
#include "compiler/rlxb/codec.h"
#include "compiler/rlxb/rlxb.h"
#include "compiler/vocab/vocab.h"
#include "ir/shape/verify.h"
#include "ir/text/text.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { MAX_TENSORS = 16 };

static bool read_json(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    return import_json(a, d, diag_add_file(d, "fuzz.json", (const char *)in->data, in->len),
                       "/no/such/folder", out);
}

// As import_model does, which verifies what the parser takes line by line.
static bool read_text(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    uint32_t file = diag_add_file(d, "fuzz.rlx", (const char *)in->data, in->len);
    if (!graph_parse(a, d, file, out))
        return false;
    const char *broken = graph_verify(*out, STAGE_IMPORTED);
    return !broken || diag_error(d, (Span){.file = file}, E0209, "%s", broken);
}

static bool read_onnx(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    return import_onnx(a, d, "fuzz.onnx", in->data, in->len, "/no/such/folder", out);
}

// With values and sizes for what the seeds call their inputs.
static bool read_given(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    static const struct {
        const char *name;
        int64_t n, v[4];
    } given[] = {{"v", 2, {3, 2}},       {"c", 1, {7}},    {"s", 1, {1}}, {"e", 1, {3}},
                 {"p", 4, {0, 1, 0, 1}}, {"w", 2, {1, 4}}, {"k", 1, {2}}, {"x", 4, {1, 2, 3, 4}}};
    enum { N = sizeof given / sizeof *given };
    ImportValue values[N];
    const ImportSize sizes[] = {{.name = "n", .value = 2},
                                {.name = "batch", .value = 4, .min = 1, .is_range = true},
                                {.name = "2*seq + 1", .value = 9}};
    for (size_t i = 0; i < N; i++) {
        const Tensor t = tensor_new(a, DTYPE_i64, 1, &given[i].n);
        memcpy(t.data, given[i].v, (size_t)given[i].n * sizeof *given[i].v);
        values[i] = (ImportValue){.name = given[i].name, .value = t, .is_list = true, .is_optional = true};
    }
    const ImportShape shape = {.name = "x", .rank = 2, .dim = {2, 3}, .origin = "given"};
    const OnnxSource source = {.name = "fuzz.onnx",
                               .data = in->data,
                               .len = in->len,
                               .dir = "/no/such/folder",
                               .options = {.sizes = sizes,
                                           .n_sizes = 3,
                                           .shapes = &shape,
                                           .n_shapes = 1,
                                           .values = values,
                                           .n_values = N,
                                           .has_all_inputs = true}};
    return import_onnx_source(a, d, &source, out);
}

// With a range for the open size of a seed.
static bool read_tflite(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    const ImportSize size = {.name = "input0_dim0", .value = 4, .min = 1, .is_range = true};
    return import_tflite(a, d, &(TflSource){"fuzz.tflite", in->data, in->len, {.sizes = &size, .n_sizes = 1}},
                         out);
}

static bool read_gguf(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    const GgufSource source = {.name = "/no/such/folder/fuzz.gguf", .data = in->data, .len = in->len};
    return import_gguf(a, d, &source, out);
}

static bool read_npy(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    Tensor t;
    *out = NULL;
    return npy_read(a, d, (Span){0}, "fuzz.npy", in->data, in->len, &t);
}

// A grammar, GBNF or a schema, and its own bytes and signs of JSON as a text of it.
static bool read_grammar(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    const size_t bytes = RLX_PARSE_BYTES(50);
    GrammarText text = {
        (const char *)in->data, in->len, {.file = diag_add_file(d, "fuzz", (const char *)in->data, in->len)}};
    Str gbnf = str_new(a);
    rlx_grammar g;
    rlx_parse p;
    *out = NULL;
    if (in->len != 0 && *text.data == '{') {
        if (!grammar_of_schema(a, d, text, &gbnf))
            return false;
        text = (GrammarText){gbnf.data, gbnf.len, {.file = diag_add_file(d, "GBNF", gbnf.data, gbnf.len)}};
    }
    if (!grammar_read(a, d, text, &g) || rlx_parse_start(&p, &g, arena_alloc(a, bytes), bytes) != 0)
        return d->n_errors == 0;
    for (size_t i = 0; i + 3 < in->len; i++) {
        const uint8_t json = (uint8_t) "[]{}\",:1a "[in->data[i] % 10];
        (void)rlx_parse_can(&p, in->data + i, 3);
        (void)(rlx_parse_feed(&p, &json, 1) == 0 || rlx_parse_feed(&p, in->data + i, 1) == 0);
    }
    return true;
}

static bool read_tokenizer(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    const char *text = (const char *)in->data;
    rlx_vocab v;
    VocabTokens tokens;
    *out = NULL;
    return vocab_read_json(a, d, diag_add_file(d, "tokenizer.json", text, in->len), text, in->len, &v) &&
           vocab_cut(a, d, &v, (VocabText){text, in->len}, RLX_TOKENS_FRAME | RLX_TOKENS_CONTROL, &tokens);
}

// The graph of a file that holds only weights: each tensor, or its product with an input, is an output.
static void use_tensor(Graph *g, const SafeTensor *s, const char *name)
{
    Tensor t = s->tensor;
    const Shape shape = shape_of(t.rank, t.dim);
    if (!tensor_set_bytes(g->arena, &t, s->tensor.data))
        return;
    NodeId id = graph_const(g, t.dtype, &shape, t.data, type_bytes(t.dtype, &shape), (Span){0});
    if (t.dtype == DTYPE_f32 && t.rank == 2) {
        const Shape row = shape_of(2, (Dim[]){1, t.dim[0]});
        id = graph_op2(g, OP_matmul, graph_input(g, name, DTYPE_f32, &row, (Span){0}), id);
    }
    if (id != 0)
        graph_output(g, name, graph_op1(g, OP_copy, id));
}

static bool read_safetensors(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    SafeTensors f;
    if (!safetensors_read(a, d, (Span){0}, "fuzz.safetensors", in->data, in->len, &f))
        return false;
    if (f.tensors.len == 0)
        return true;
    *out = graph_new(a, d, "fuzz");
    for (uint32_t i = 0; i < f.tensors.len && i < MAX_TENSORS; i++)
        use_tensor(*out, &f.tensors.data[i], arena_printf(a, "t%u", i));
    return d->n_errors == 0;
}

// Lengths and checksum of an .rlxb file that was mutated, so that what is behind them is read: but for one
// input of eight, and where the graph section would be longer than the file.
static void seal_rlxb(Bytes *in, uint64_t iteration)
{
    Arena scratch = {0};
    if (iteration % 8 == 7 || in->len < RLXB_HEADER)
        return;
    const uint64_t said = rlxb_get(in->data + 24, 8), most = in->len - RLXB_HEADER,
                   graph = said < most ? said : most;
    Str h = str_new(&scratch);
    rlxb_put(&h, in->len, 8);
    rlxb_put(&h, graph, 8);
    rlxb_put(&h, (RLXB_HEADER + graph + RLXB_ALIGN - 1) / RLXB_ALIGN * RLXB_ALIGN, 8);
    memcpy(in->data + 16, h.data, h.len);
    h.len = 0;
    rlxb_put(&h, rlxb_checksum(in->data, (size_t)graph), 8);
    memcpy(in->data + RLXB_HASHED, h.data, h.len);
    arena_free(&scratch);
}

static bool read_rlxb(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    return import_rlxb(a, d, &(RlxbSource){"fuzz.rlxb", in->data, in->len, false}, out);
}

// Words are separated by spaces.
static const char json_words[] =
    "\"inputs\" \"outputs\" \"nodes\" \"op\" \"name\" \"states\" \"next\" \"weights\" \"data\" "
    "\"shape\" \"dtype\" \"axis\" \"symbols\" \"i64\" \"bool\" \"f16\" \"u8\" \"matmul\" \"conv\" "
    "\"reshape\" \"gather\" \"slice\" \"concat\" \"reduce_sum\" \"attention\" \"lstm\" \"resize\" "
    "\"expand\" \"pad\" \"if\" \"split\" \"where\" \"transpose\" \"unsqueeze\" \"flatten\" "
    "\"cumsum\" \"max_pool\" \"nan\" \"2*n+1\" \"floor(n/2)\" null true [ ] { } , : [[[[[[[[ "
    "\"\\u00e9\" -0.0";
static const char text_words[] =
    "graph symbol input param state const output -> %1 %2 %3 f32[ i64[ hex\" multiple { } [ ] ( ) \" "
    "# : = add( matmul( reshape( conv( if( result( split( attention( axis= shape= pads= floor(n/2) "
    "nan -inf bool[]";
static const char onnx_words[] =
    "Add MatMul Conv Reshape Gather Slice Concat Resize If Loop LSTM Split Cast Unsqueeze Transpose "
    "Expand Pad Range Shape Where axis axes perm to x y \x08\x01 \x12\x00 \x1a\x03 "
    "\x0a\xff\xff\xff\xff\x0f \x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01";
static const char rlxb_words[] =
    "\x01\x01\x01\x01 \xff\xff\xff\xff \x80 \x80\x80\x80 add matmul const loop if \x02 \x03 \x09";
static const char tflite_words[] =
    "\x04 \x08 \x0c \x10 \xff\xff\xff\xff \xff\xff\xff\x7f \x01\x01 \x02\x03 \x80";
static const char gguf_words[] =
    "\x01 \x04 \x06 \x08 \x09 \x0c \x10 \x1e \x20 \xff\xff\xff\xff \xff\xff\xff\x7f \x80 llama gpt2 "
    "phi3 olmo2 qwen3 gemma2 granite attn_q .weight .bias ffn_up output rope_freqs split.count "
    "general.alignment ssm_conv1d mamba2 linear yarn gpt-oss bert attn_sinks pooling_type";
static const char file_words[] =
    "'shape' ( ,) True 'descr' '<f8' \"F64\" \"shape\" [0,0] { } [ ] \"data_offsets\" \"BOOL\"";
static const char grammar_words[] = "root ::= | ( ) * + ? {2,} {0,9} [^a-z] [ ] \"a\" \\x \\u00e9 # \n . "
                                    "\"type\" \"object\" \"array\" \"$ref\" \"#/$defs/node\" "
                                    "\"properties\" \"required\" \"items\" \"minItems\" \"minimum\" \"enum\" "
                                    "\"const\" true false null 99999 { } , : -1";
static const char tokenizer_words[] = "\"byte_fallback\" true \"unk_token\" \"Metaspace\" \"Replace\" "
                                      "\"Prepend\" \"normalizer\" \"type\" [ ] { } , : null 0 "
                                      "\"\xe2\x96\x81\" \"<0x0A>\" \"content\" \"special\" -1 1e9 \"NFKC\" "
                                      "\"NFD\" \"WordPiece\" \"Unigram\" \"##\" \"split\" \"vocab\"";

static const Format formats[] = {
    {"json", read_json, 64, json_words, NULL, NULL},
    {"irtext", read_text, 64, text_words, NULL, NULL},
    {"onnx", read_onnx, 64, onnx_words, NULL, NULL},
    {"given", read_given, 64, onnx_words, NULL, NULL},
    {"models", read_given, 512, onnx_words, NULL, onnx_mutate},
    {"tflite", read_tflite, 64, tflite_words, NULL, NULL},
    {"gguf", read_gguf, 64, gguf_words, NULL, NULL},
    {"npy", read_npy, 64, file_words, NULL, NULL},
    {"safetensors", read_safetensors, 64, file_words, NULL, NULL},
    {"rlxb", read_rlxb, 64, rlxb_words, seal_rlxb, NULL},
    {"grammar", read_grammar, 64, grammar_words, NULL, NULL},
    {"tokenizer", read_tokenizer, 64, tokenizer_words, NULL, NULL},
};

const Format *format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}
