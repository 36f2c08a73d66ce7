// SPDX-License-Identifier: Apache-2.0
// Tokenizer of com.microsoft, as converters of scikit-learn's text features write it. Expressions say which
// characters belong to a token, or stand between tokens; tokens then are runs of bytes, found all at once as
// in StringSplit. Expressions that need more than sets and runs of characters are reported.
#include "compiler/import/onnx/text/onnx_regex.h"
#include "compiler/import/onnx/onnx_text.h"

#include <string.h>

// Characters of one set, alone or in runs.
typedef struct Run {
    bool is_in[128], is_wide; // ASCII; all characters beyond it
    bool is_joined;           // as many as there are
    int64_t least;            // characters of a match
} Run;

typedef struct Tokens {
    NodeId text;
    int64_t axis, room;       // of the bytes
    int64_t least, most;      // characters of a token; tokens that are possible
    NodeId is_inside, begins; // of every byte: it belongs to a token; the first one of it
    NodeId is_lead;           // the first byte of a character
} Tokens;

// --- expressions ---

static const RegexNode *alone(const RegexNode *t)
{
    while ((t->kind == REGEX_CAT || t->kind == REGEX_ALT) && t->child.len == 1)
        t = t->child.data[0];
    return t;
}

static bool read_set(const RegexNode *t, Run *r)
{
    uint64_t wide = 0;
    for (uint32_t i = 0; i < t->set.len; i++) {
        const RegexRange *range = &t->set.data[i];
        for (uint32_t c = range->first; c <= range->last && c < 128; c++)
            r->is_in[c] = true;
        if (range->last >= 128)
            wide += range->last - (range->first < 128 ? 128 : range->first) + 1;
    }
    r->is_wide = wide == REGEX_LAST_POINT - 127;
    r->least = 1;
    return wide == 0 || r->is_wide;
}

static bool is_word(const Run *r)
{
    for (int c = 0; c < 128; c++) {
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (r->is_in[c] != (is_letter || (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return !r->is_wide;
}

static bool is_same_set(const Run *a, const Run *b)
{
    return memcmp(a->is_in, b->is_in, sizeof a->is_in) == 0 && a->is_wide == b->is_wide;
}

static bool read_part(const RegexNode *t, Run *r)
{
    t = alone(t);
    if (t->kind == REGEX_SET)
        return read_set(t, r);
    if (t->kind != REGEX_REPEAT || alone(t->child.data[0])->kind != REGEX_SET ||
        !read_set(alone(t->child.data[0]), r))
        return false;
    r->is_joined = t->max == REGEX_NO_MAX;
    r->least = t->min;
    return r->is_joined || t->max == t->min;
}

// Parts of one set, also between the borders of words, where a longest run of them ends anyway.
static bool read_parts(const RegexNode *t, Run *r)
{
    bool has_border = false, has_part = false;
    for (uint32_t i = 0; i < t->child.len; i++) {
        Run part = {0};
        const RegexNode *c = alone(t->child.data[i]);
        const bool is_end = i == 0 || i + 1 == t->child.len;
        if (c->kind == REGEX_ASSERT && c->place == PLACE_WORD && is_end) {
            has_border = true;
            continue;
        }
        if (!read_part(c, &part) || (has_part && !is_same_set(&part, r)))
            return false;
        part.least += r->least;
        part.is_joined = part.is_joined || r->is_joined;
        *r = part;
        has_part = true;
    }
    return has_part && (!has_border || (is_word(r) && r->is_joined));
}

static bool read_choice(const RegexNode *t, Run *r)
{
    for (uint32_t i = 0; i < t->child.len; i++) {
        Run one = {0};
        const RegexNode *set = alone(t->child.data[i]);
        if (set->kind != REGEX_SET || !read_set(set, &one))
            return false;
        for (int c = 0; c < 128; c++)
            r->is_in[c] = r->is_in[c] || one.is_in[c];
        r->is_wide = r->is_wide || one.is_wide;
    }
    r->least = 1;
    return true;
}

static bool read_run(const RegexNode *t, Run *r)
{
    t = alone(t);
    const bool is_known = t->kind == REGEX_CAT   ? read_parts(t, r)
                          : t->kind == REGEX_ALT ? read_choice(t, r)
                                                 : read_part(t, r);
    return is_known && r->least >= 1 && (r->is_joined || r->least == 1);
}

static bool read_expression(OnnxNode *n, const ProtobufCBinaryData *text, Run *r)
{
    Arena *a = n->model->arena;
    const char *pattern = arena_strndup(a, (const char *)text->data, text->len), *error = NULL;
    const RegexNode *tree = regex_parse(a, pattern, text->len, &error);
    *r = (Run){0};
    if (!tree)
        return onnx_fail(n, E0203, "the expression '%s': %s", pattern, error);
    return read_run(tree, r) ||
           onnx_fail(n, E0206,
                     "the expression '%s' is not supported: only sets of characters and runs of one set are",
                     pattern);
}

// --- bytes ---

static NodeId flags(OnnxNode *n, NodeId text, const bool *table)
{
    const Shape s = {.rank = 1, .dim = {256}};
    const NodeId of_byte = onnx_const(n, DTYPE_bool, &s, arena_copy(n->model->arena, table, 256), 256);
    return onnx_gather(n, of_byte, onnx_cast(n, text, DTYPE_i32), 0);
}

static NodeId bytes_of_run(OnnxNode *n, NodeId text, const Run *r)
{
    bool table[256] = {0};
    for (int c = 1; c < 256; c++)
        table[c] = c < 128 ? r->is_in[c] : r->is_wide;
    return flags(n, text, table);
}

static NodeId lead_bytes(OnnxNode *n, NodeId text)
{
    bool table[256] = {0};
    for (int c = 1; c < 256; c++)
        table[c] = c < 128 || c >= 192;
    return flags(n, text, table);
}

static NodeId all_bytes(OnnxNode *n, NodeId text)
{
    return onnx_op2(n, OP_ne, text, onnx_scalar(n, DTYPE_u8, 0));
}

static void join_runs(OnnxNode *n, Tokens *t)
{
    const NodeId before = onnx_text_shift(n, t->is_inside, 1);
    t->begins = onnx_op2(n, OP_logical_and, t->is_inside, onnx_op1(n, OP_logical_not, before));
    t->most = (t->room + 1) / 2;
}

// Every character for itself.
static void part_characters(OnnxNode *n, Tokens *t)
{
    t->begins = onnx_op2(n, OP_logical_and, t->is_inside, t->is_lead);
    t->most = t->room;
}

// --- which bytes are tokens ---

static void find_between(OnnxNode *n, Tokens *t, const ProtobufCBinaryData *list, size_t count)
{
    NodeId is_between = 0;
    if (count == 1 && list[0].len == 0) {
        t->is_inside = all_bytes(n, t->text);
        t->least = 1;
        part_characters(n, t);
        return;
    }
    for (size_t i = 0; i < count && !n->failed; i++) {
        Run r;
        if (!read_expression(n, &list[i], &r))
            return;
        if (r.least > 1)
            onnx_fail(n, E0206, "separators of at least %lld characters are not supported",
                      (long long)r.least);
        is_between = onnx_join(n, OP_logical_or, is_between, bytes_of_run(n, t->text, &r));
    }
    is_between = onnx_op1(n, OP_logical_not, is_between);
    t->is_inside = onnx_op2(n, OP_logical_and, all_bytes(n, t->text), is_between);
    join_runs(n, t);
}

static void find_expression(OnnxNode *n, Tokens *t, const ProtobufCBinaryData *expression)
{
    Run r;
    if (!read_expression(n, expression, &r))
        return;
    t->is_inside = bytes_of_run(n, t->text, &r);
    t->least = r.least > t->least ? r.least : t->least;
    if (r.is_joined)
        join_runs(n, t);
    else
        part_characters(n, t);
}

static NodeId number_bytes(OnnxNode *n, const Tokens *t)
{
    const NodeId running = onnx_cumsum(n, onnx_cast(n, t->begins, DTYPE_i64), -1, false);
    return onnx_op_number(n, OP_sub, running, 1);
}

static NodeId column(OnnxNode *n, int64_t count)
{
    return onnx_unsqueeze(n, onnx_iota(n, count), (const int64_t[]){1}, 1);
}

// Tokens with too few characters are none.
static void drop_short(OnnxNode *n, Tokens *t)
{
    const int64_t axis = t->axis, bytes = axis + 1;
    if (t->least <= 1 || n->failed)
        return;
    const NodeId part = onnx_unsqueeze(n, number_bytes(n, t), &axis, 1);
    const NodeId inside = onnx_unsqueeze(n, t->is_inside, &axis, 1);
    const NodeId lead = onnx_unsqueeze(n, t->is_lead, &axis, 1);
    const NodeId is_here =
        onnx_op2(n, OP_logical_and, inside, onnx_op2(n, OP_eq, part, column(n, t->most)));
    const NodeId starts = onnx_cast(n, onnx_op2(n, OP_logical_and, is_here, lead), DTYPE_i64);
    const NodeId length = onnx_reduce(n, OP_reduce_sum, starts, &bytes, 1);
    const NodeId is_long = onnx_op_number(n, OP_ge, length, (double)t->least);
    const NodeId stays = onnx_cast(n, onnx_op2(n, OP_logical_and, is_here, is_long), DTYPE_i64);
    const NodeId any = onnx_op_number(n, OP_gt, onnx_reduce(n, OP_reduce_sum, stays, &axis, 1), 0);
    const NodeId keeps = onnx_squeeze(n, any, &axis, 1);
    t->is_inside = onnx_op2(n, OP_logical_and, t->is_inside, keeps);
    t->begins = onnx_op2(n, OP_logical_and, t->begins, keeps);
    t->most = (t->room + 1) / (t->least + 1) > 0 ? (t->room + 1) / (t->least + 1) : 1;
}

// --- the result ---

static NodeId fill(OnnxNode *n, const char *text, size_t len, int64_t room)
{
    const ProtobufCBinaryData v = {.len = len, .data = (uint8_t *)(uintptr_t)text};
    return onnx_text_widen(n, onnx_text_const(n, &v, 1), room);
}

// As many tokens as the string with the most of them has; behind those of the others stands the padding. With
// marks there is one before the first token and one behind the last.
static void put_tokens(OnnxNode *n, const Tokens *t, const ProtobufCBinaryData *pad, bool has_marks)
{
    const int64_t axis = t->axis, room = (int64_t)pad->len > t->room ? (int64_t)pad->len : t->room;
    const NodeId begins = onnx_cast(n, t->begins, DTYPE_i64);
    const NodeId each = onnx_reduce(n, OP_reduce_sum, begins, &axis, 1);
    const NodeId count = onnx_unsqueeze(n, each, &axis, 1);
    const OnnxTextParts parts = {t->text, number_bytes(n, t), t->is_inside, axis};
    NodeId index = column(n, t->most + (has_marks ? 2 : 0));
    if (has_marks)
        index = onnx_op_number(n, OP_sub, index, 1);
    NodeId y = onnx_text_widen(n, onnx_text_parts(n, &parts, index, 0), room);
    y = onnx_op3(n, OP_where, onnx_op2(n, OP_lt, index, count), y,
                 fill(n, (const char *)pad->data, pad->len, room));
    const NodeId longest = onnx_reshape(n, onnx_reduce(n, OP_reduce_max, each, NULL, 0), &(Shape){0});
    NodeId most = onnx_op1(n, OP_relu, longest); // of no strings: 0
    if (has_marks) {
        y = onnx_op3(n, OP_where, onnx_op_number(n, OP_lt, index, 0), fill(n, "\2", 1, room), y);
        y = onnx_op3(n, OP_where, onnx_op2(n, OP_eq, index, count), fill(n, "\3", 1, room), y);
        const NodeId both = onnx_cast(n, onnx_op_number(n, OP_gt, most, 0), DTYPE_i64);
        most = onnx_op2(n, OP_add, most, onnx_op_number(n, OP_mul, both, 2));
    }
    onnx_out_text(n, 0, onnx_text_first(n, y, (uint32_t)axis, most));
}

void onnx_import_ms_tokenizer(OnnxNode *n)
{
    size_t n_separators = 0;
    Tokens t = {.text = onnx_text_src(n, 0), .least = onnx_int(n, "mincharnum", 1)};
    const bool has_marks = onnx_int(n, "mark", 0) != 0, has_expression = onnx_has_attr(n, "tokenexp");
    const ProtobufCBinaryData *separators =
        onnx_has_attr(n, "separators") ? onnx_strings(n, "separators", &n_separators) : NULL;
    const Onnx__AttributeProto *pad = onnx_attr(n, "pad_value");
    const Onnx__AttributeProto *expression = has_expression ? onnx_attr(n, "tokenexp") : NULL;
    const Shape s = onnx_text_shape(n, t.text);
    if (!n->failed && (s.rank < 1 || s.rank > 2))
        onnx_fail(n, E0204, "needs strings [C] or [N, C], found rank %u", s.rank);
    if (!n->failed && (t.least < 1 || t.least > ONNX_MAX_TEXT))
        onnx_fail(n, E0203, "attribute 'mincharnum' is %lld, expected at least 1", (long long)t.least);
    if (!n->failed && (!pad || (n_separators > 0) == has_expression))
        onnx_fail(n, E0203, "needs the attribute 'pad_value', and either 'separators' or 'tokenexp'");
    if (n->failed)
        return;
    t.axis = s.rank;
    t.room = onnx_text_capacity(n, t.text);
    t.is_lead = lead_bytes(n, t.text);
    if (expression)
        find_expression(n, &t, &expression->s);
    else
        find_between(n, &t, separators, n_separators);
    drop_short(n, &t);
    if (!n->failed)
        put_tokens(n, &t, &pad->s, has_marks);
}
