// SPDX-License-Identifier: Apache-2.0
// Strings through automata: which of a list of keys a string is, and whether it matches a regular expression.
#include "compiler/import/onnx/text/onnx_regex.h"
#include "compiler/import/onnx/onnx_text.h"

#include <string.h>

static NodeId ints(OnnxNode *n, const int32_t *v, uint32_t count)
{
    const Shape s = {.rank = 1, .dim = {count}};
    const int32_t *copy = arena_copy(n->model->arena, v, count * sizeof *v);
    return onnx_const(n, DTYPE_i32, &s, copy, count * sizeof *v);
}

// For every string what the state means in which it ends.
static NodeId walk(OnnxNode *n, NodeId text, const Automaton *a)
{
    if (n->failed || !onnx_spend(n, (int64_t)a->n_states * a->n_classes))
        return 0;
    const Shape table = {.rank = 2, .dim = {a->n_states, a->n_classes}};
    const uint64_t bytes = (uint64_t)a->n_states * a->n_classes * sizeof *a->table;
    NodeBuild b = ONNX_BEGIN(n, OP_dfa, text, ints(n, a->classes, 256));
    node_src(&b, onnx_const(n, DTYPE_i32, &table, a->table, bytes));
    return onnx_gather(n, ints(n, a->result, a->n_states), onnx_end(n, &b), 0);
}

// --- keys ---

// A tree of the keys' bytes. State 1 is that of strings which begin like none of them.
typedef struct Keys {
    Automaton *out;
    uint32_t capacity;
    bool is_full;
} Keys;

static int32_t new_state(Keys *k)
{
    Automaton *a = k->out;
    if (a->n_states == k->capacity) {
        k->is_full = true;
        return 1;
    }
    const int32_t id = (int32_t)a->n_states++;
    for (uint32_t c = 0; c < a->n_classes; c++)
        a->table[(uint32_t)id * a->n_classes + c] = 1;
    a->table[(uint32_t)id * a->n_classes] = id;
    a->result[id] = -1;
    return id;
}

static void add_key(Keys *k, const ProtobufCBinaryData *key, int32_t index)
{
    Automaton *a = k->out;
    int32_t state = 0;
    for (size_t i = 0; i < key->len && !k->is_full; i++) {
        const uint32_t cell = (uint32_t)state * a->n_classes + (uint32_t)a->classes[key->data[i]];
        if (a->table[cell] == 1) {
            const int32_t made = new_state(k);
            a->table[cell] = made;
        }
        state = a->table[cell];
    }
    a->result[state] = index;
}

static bool count_classes(OnnxNode *n, const ProtobufCBinaryData *keys, size_t count, Automaton *a,
                          uint64_t *bytes)
{
    bool is_used[256] = {false};
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        *bytes += keys[i].len;
        for (size_t k = 0; k < keys[i].len; k++)
            is_used[keys[i].data[k]] = true;
    }
    a->n_classes = 2; // the zero byte, and those in no key
    for (uint32_t c = 1; c < 256; c++)
        a->classes[c] = is_used[c] ? (int32_t)a->n_classes++ : 1;
    return !is_used[0] || onnx_fail(n, E0206, "a key with a zero byte is not supported");
}

NodeId onnx_text_find(OnnxNode *n, NodeId text, const ProtobufCBinaryData *keys, size_t count)
{
    enum { MAX_CELLS = 1 << 24 };
    Automaton a = {0};
    uint64_t bytes = 0;
    if (n->failed || !count_classes(n, keys, count, &a, &bytes))
        return 0;
    // A state per byte at most; fewer where the table would be too large.
    const uint64_t most = MAX_CELLS / a.n_classes;
    Keys k = {.out = &a, .capacity = (uint32_t)(bytes + 2 < most ? bytes + 2 : most)};
    a.table = ARENA_ARRAY(n->model->arena, int32_t, (size_t)k.capacity * a.n_classes);
    a.result = ARENA_ARRAY(n->model->arena, int32_t, k.capacity);
    new_state(&k);
    new_state(&k);
    for (size_t i = 0; i < count; i++)
        add_key(&k, &keys[i], (int32_t)i);
    if (k.is_full || count > INT32_MAX)
        onnx_fail(n, E0004, "%zu keys with %llu bytes are too many", count, (unsigned long long)bytes);
    return walk(n, text, &a);
}

// --- regular expressions ---

void onnx_import_regex_full_match(OnnxNode *n)
{
    const NodeId text = onnx_text_src(n, 0);
    const Onnx__AttributeProto *pattern = onnx_attr(n, "pattern");
    const char *error = NULL;
    Automaton a;
    onnx_str(n, "pattern", ""); // for its type
    if (!n->failed && !pattern)
        onnx_fail(n, E0203, "needs the attribute 'pattern'");
    if (n->failed)
        return;
    const RegexNode *tree = regex_parse(n->model->arena, pattern->s.len ? (const char *)pattern->s.data : "",
                                        pattern->s.len, &error);
    if (!tree || !regex_automaton(n->model->arena, tree, &a, &error)) {
        onnx_fail(n, E0206, "the pattern is not supported: %s", error);
        return;
    }
    onnx_out(n, 0, onnx_cast(n, walk(n, text, &a), DTYPE_bool));
}
