// SPDX-License-Identifier: Apache-2.0
// Values of the text form: types, lists of dims, elements of constants. Memory is taken only after the text
// has been seen to be long enough to fill it.
#include "ir/text/text_element.h"
#include "ir/text/text_lex.h"

bool lex_dtype(Lexer *l, DType *out)
{
    const char *word = NULL;
    lex_skip(l);
    size_t begin = l->at;
    return lex_word(l, "an element type", &word) &&
           (dtype_parse(word, out) || lex_fail(l, begin, E0107, "'%s' is not an element type", word));
}

bool lex_ints(Lexer *l, DimList *out)
{
    if (!lex_expect(l, "["))
        return false;
    while (!lex_at(l, ']')) {
        int64_t v = 0;
        if ((out->v.len && !lex_expect(l, ",")) || !lex_int(l, "an entry", &v))
            return false;
        vec_push(l->arena, &out->v, v);
    }
    return lex_expect(l, "]");
}

// The end of a dim: the next comma or bracket outside of quotes and parentheses, on this line.
static size_t dim_end(const Lexer *l)
{
    size_t at = l->at, depth = 0;
    bool is_quoted = false;
    for (; at < l->len && l->text[at] != '\n'; at++) {
        char c = l->text[at];
        if (is_quoted) {
            at += c == '\\';
            is_quoted = c != '"';
        } else if (c == '"') {
            is_quoted = true;
        } else if (c == '(') {
            depth++;
        } else if (c == ')' && depth) {
            depth--;
        } else if (c == ']' || (c == ',' && !depth)) {
            break;
        }
    }
    return at < l->len ? at : l->len;
}

static bool parse_dim(Lexer *l, DimTable *t, Dim *out)
{
    lex_skip(l);
    size_t end = dim_end(l), error_at = 0;
    while (end > l->at && (l->text[end - 1] == ' ' || l->text[end - 1] == '\r'))
        end--;
    if (!dim_parse(t, l->text + l->at, end - l->at, DIM_KNOWN_ONLY, out, &error_at))
        return lex_fail(l, l->at + error_at, E0107,
                        "expected a size: a number, or known symbols with + - * "
                        "floor(a / b) ceil(a / b) mod(a, b) min(a, b) max(a, b)");
    l->at = end;
    return true;
}

bool lex_dims(Lexer *l, DimTable *t, DimList *out)
{
    if (!lex_expect(l, "["))
        return false;
    while (!lex_at(l, ']')) {
        Dim d = 0;
        if ((out->v.len && !lex_expect(l, ",")) || !parse_dim(l, t, &d))
            return false;
        vec_push(l->arena, &out->v, d);
    }
    return lex_expect(l, "]");
}

bool lex_type(Lexer *l, DimTable *t, TensorType *out)
{
    DimList dims = {0};
    if (!lex_dtype(l, &out->dtype))
        return false;
    size_t begin = l->at;
    if (!lex_dims(l, t, &dims))
        return false;
    if (dims.v.len > SHAPE_MAX_RANK)
        return lex_fail(l, begin, E0107, "%u axes; a tensor has at most %d", dims.v.len, SHAPE_MAX_RANK);
    out->shape = shape_of(dims.v.len, dims.v.data);
    return true;
}

// --- elements ---

static bool parse_list(Lexer *l, Tensor *t)
{
    for (int64_t i = 0; i < t->numel; i++) {
        size_t n = 0;
        if (i && !lex_expect(l, ","))
            return false;
        const char *token = lex_take_token(l, &n);
        if (!element_parse(t, i, token, n))
            return lex_fail(l, l->at - n, E0107, "expected an element of type %s", dtype_info[t->dtype].name);
    }
    return lex_expect(l, "}");
}

static bool parse_hex(Lexer *l, Tensor *t)
{
    size_t digits = (size_t)dtype_info[t->dtype].bytes * 2;
    rlx_assert((uint64_t)t->numel * digits <= l->len - l->at);
    for (int64_t i = 0; i < t->numel; i++, l->at += digits)
        if (!element_parse_hex(t, i, l->text + l->at))
            return lex_fail(l, l->at, E0107, "expected %zu digits of 0-9 a-f: the bits of a value of type %s",
                            digits, dtype_info[t->dtype].name);
    if (l->at < l->len && l->text[l->at] == '"') {
        l->at++;
        return true;
    }
    return lex_fail(l, l->at, E0107, "expected '\"' after %lld values", (long long)t->numel);
}

bool lex_values(Lexer *l, const TensorType *type, Tensor *out)
{
    bool is_hex = lex_take(l, "hex\"");
    if (!is_hex && !lex_expect(l, "{"))
        return false;
    uint64_t left = l->len - l->at, bytes = type_bytes(type->dtype, &type->shape);
    uint64_t numel = (uint64_t)shape_numel(&type->shape);
    if (is_hex ? bytes > left / 2 : numel > left)
        return lex_fail(l, l->at, E0107, "%llu elements are needed, and the text ends before",
                        (unsigned long long)numel);
    *out = tensor_new(l->arena, type->dtype, type->shape.rank, type->shape.dim);
    return is_hex ? parse_hex(l, out) : parse_list(l, out);
}

bool lex_float(Lexer *l, double *out)
{
    size_t n = 0;
    const char *token = lex_take_token(l, &n);
    return str_parse_f64(token, n, out) || lex_fail(l, l->at - n, E0107, "expected a number");
}
