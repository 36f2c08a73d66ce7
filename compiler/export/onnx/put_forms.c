// SPDX-License-Identifier: Apache-2.0
// Elementwise ops by the texts of put_forms.def. The texts are ours, so what they do not follow is a bug;
// whether an operand is a constant, where the text asks for one, decides which row counts.
#include "compiler/export/onnx/put.h"

#include <ctype.h>
#include <string.h>

enum { FLOAT = 1, INT = 2, UINT = 4, BOOL = 8, SIGNED = FLOAT | INT, WHOLE = INT | UINT, ANY = 15 };
enum { MAX_OPERANDS = 4, MAX_DEPTH = 16, MAX_WORD = 32 };

static const struct {
    OpId op;
    uint32_t types;
    const char *text;
} forms[] = {
#define FORM(op, types, text) {OP_##op, types, text},
#include "compiler/export/onnx/put_forms.def"
};

static uint32_t class_of(DType t)
{
    static const uint32_t by_class[] = {
        [DCLASS_FLOAT] = FLOAT, [DCLASS_INT] = INT, [DCLASS_UINT] = UINT, [DCLASS_BOOL] = BOOL};
    return by_class[dtype_info[t].cls];
}

static DType unsigned_of(DType t)
{
    static const DType by_bytes[] = {[1] = DTYPE_u8, [2] = DTYPE_u16, [4] = DTYPE_u32, [8] = DTYPE_u64};
    return by_bytes[dtype_info[t].bytes];
}

// The types of ONNX's attributes: an f32 must hold the number.
static bool constant(const Put *w, char letter, double *v)
{
    const uint32_t i = (uint32_t)(letter - 'a');
    return put_has(w, i) && node_is_scalar_const(w->g, put_node(w)->src[i], v);
}

static bool is_letter(const char *text)
{
    return *text >= 'a' && *text <= 'c' && !isalnum((unsigned char)text[1]);
}

static bool form_fits(const Put *w, const char *text)
{
    double v = 0;
    for (; *text != '\0'; text++) {
        const bool is_value = *text == '=' && is_letter(text + 1);
        const bool is_scalar = is_letter(text) && text[1] == '!';
        if (is_value && (!constant(w, text[1], &v) || (double)(float)v != v))
            return false;
        if (is_scalar && !constant(w, *text, &v))
            return false;
    }
    return true;
}

// --- reading a text ------------------------------------------------------------------------------

typedef struct Form {
    Put *w;
    const char *at;
    uint32_t depth;
} Form;

static Value read_value(Form *f);

static void skip(Form *f, char c)
{
    rlx_assert(*f->at == c);
    f->at++;
}

static const char *read_word(Form *f)
{
    const char *start = f->at;
    while (*f->at != '\0' && strchr(" ():,=", *f->at) == NULL)
        f->at++;
    rlx_assert(f->at > start && f->at - start < MAX_WORD);
    return arena_strndup(&f->w->file->scratch, start, (size_t)(f->at - start));
}

static void set_attribute(Form *f, Onnx__NodeProto *n, const char *name, const char *text)
{
    Put *w = f->w;
    double v = 0;
    const DType type = put_type(w, 0);
    if (strcmp(text, "same") == 0)
        put_int(w, n, name, dtype_info[type].onnx);
    else if (strcmp(text, "unsigned") == 0)
        put_int(w, n, name, dtype_info[unsigned_of(type)].onnx);
    else if (is_letter(text) && constant(w, *text, &v))
        put_float(w, n, name, v);
    else if (str_parse_f64(text, strlen(text), &v))
        put_int(w, n, name, (int64_t)v);
    else
        put_text(w, n, name, text);
}

// Attributes are read twice: first over them, to the operands, which stand behind them.
static void read_attributes(Form *f, Onnx__NodeProto *n)
{
    for (char before = ':'; *f->at == before; before = ',') {
        f->at++;
        const char *name = read_word(f);
        skip(f, '=');
        const char *value = read_word(f);
        if (n != NULL)
            set_attribute(f, n, name, value);
    }
}

static Value read_node(Form *f)
{
    Put *w = f->w;
    Value in[MAX_OPERANDS];
    uint32_t n = 0;
    rlx_assert(f->depth < MAX_DEPTH);
    f->depth++;
    skip(f, '(');
    const char *type = read_word(f);
    Form attributes = *f;
    read_attributes(f, NULL);
    Str key = str_new(&w->file->scratch);
    bool is_shared = f->depth > 1;
    str_printf(&key, "%u %s", (unsigned)put_type(w, 0), type);
    for (const char *c = attributes.at; c < f->at; c++)
        is_shared = is_shared && !(*c == '=' && is_letter(c + 1));
    str_add_n(&key, attributes.at, (size_t)(f->at - attributes.at));
    while (*f->at == ' ') {
        f->at++;
        rlx_assert(n < MAX_OPERANDS);
        in[n++] = read_value(f);
        str_printf(&key, "\n%s", in[n - 1]);
    }
    skip(f, ')');
    f->depth--;
    uint64_t known = 0;
    if (is_shared && map_get_str(&w->made, str_text(&key), &known))
        return (Value)(uintptr_t)known;
    Onnx__NodeProto *node = put_begin(w, type, in, n);
    read_attributes(&attributes, node);
    const Value out = put_result(w, node);
    if (is_shared)
        map_put_str(&w->file->scratch, &w->made, str_text(&key), (uint64_t)(uintptr_t)out);
    return out;
}

static Value read_value(Form *f)
{
    double v = 0;
    if (*f->at == '(')
        return read_node(f);
    const DType type = put_type(f->w, 0);
    const char *word = read_word(f);
    if (strcmp(word, "BITS") == 0)
        return put_number(f->w, type, dtype_info[type].bits);
    if (word[1] == '!') {
        Tensor t = tensor_of_const(f->w->g, put_node(f->w)->src[*word - 'a']);
        t.rank = 0;
        return put_small(f->w, &t);
    }
    if (is_letter(word))
        return put_src(f->w, (uint32_t)(*word - 'a'));
    const bool is_number = str_parse_f64(word, strlen(word), &v);
    rlx_assert(is_number);
    return put_number(f->w, type, v);
}

Value put_elementwise(Put *w)
{
    const Node *n = put_node(w);
    rlx_assert(op_info[n->op].kind == OPKIND_EW);
    for (uint32_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        Form f = {.w = w, .at = forms[i].text};
        if (forms[i].op == n->op && (forms[i].types & class_of(put_type(w, 0))) != 0 &&
            form_fits(w, forms[i].text))
            return read_value(&f);
    }
    put_fail(w, "this op has no form in ONNX");
    return "";
}
