// SPDX-License-Identifier: Apache-2.0
// Decorates products by a constant of products by a constant (x * 1e38 * 1e38) with NoContraction, and the
// inner ones as well: NVIDIA's compiler multiplies the constants first, so that 0 becomes NaN there. Other
// operations stay as they are: with the decoration on all of them, a softmax took 8 % longer. glslang has the
// decoration only for variables that are `precise`, and not for what stands in an argument of a call.
#include "compiler/images/spirv.h"
#include "compiler/images/spirv_words.h"

// Numbers of the SPIR-V specification.
enum {
    OP_TYPE_FIRST = 19, // the first instruction behind the decorations is one of a type
    OP_TYPE_LAST = 39,
    OP_CONSTANT = 43,
    OP_DECORATE = 71,
    OP_F_MUL = 133,
    DECORATE_WORDS = 3,
    MUL_WORDS = 5,
    NO_CONTRACTION = 42
};

typedef struct Ids {
    bool *is_constant, *is_scaled; // scaled: a product by a constant
} Ids;

static const uint32_t *find_types(const uint32_t *at, const uint32_t *end)
{
    while (at < end && (spirv_opcode(at) < OP_TYPE_FIRST || spirv_opcode(at) > OP_TYPE_LAST))
        at += spirv_length(at);
    rlx_assert(at < end);
    return at;
}

static void decorate(Arena *a, SpirvWords *out, uint32_t id)
{
    vec_push(a, out, DECORATE_WORDS << 16 | OP_DECORATE);
    vec_push(a, out, id);
    vec_push(a, out, NO_CONTRACTION);
}

// Its words: the type, then the id, then for a product both factors.
static void visit(Arena *a, Ids *ids, const uint32_t *at, bool *is_decorated, SpirvWords *out)
{
    if (spirv_opcode(at) == OP_CONSTANT)
        ids->is_constant[at[2]] = true;
    if (spirv_opcode(at) != OP_F_MUL)
        return;
    rlx_assert(spirv_length(at) == MUL_WORDS);
    for (uint32_t i = 3; i < MUL_WORDS; i++) {
        const uint32_t other = at[MUL_WORDS + 2 - i];
        if (!ids->is_constant[at[i]])
            continue;
        ids->is_scaled[at[2]] = true;
        if (!ids->is_scaled[other])
            continue;
        if (!is_decorated[other])
            decorate(a, out, other);
        decorate(a, out, at[2]);
        is_decorated[other] = is_decorated[at[2]] = true;
        return;
    }
}

void spirv_keep_products(Arena *a, Spirv *s)
{
    const uint32_t *const end = s->words + s->len, bound = s->words[SPIRV_BOUND];
    const uint32_t *const types = find_types(s->words + SPIRV_HEADER, end);
    Ids ids = {ARENA_ARRAY(a, bool, bound), ARENA_ARRAY(a, bool, bound)};
    bool *is_decorated = ARENA_ARRAY(a, bool, bound);
    SpirvWords out = {0};
    for (const uint32_t *at = s->words; at < types; at++)
        vec_push(a, &out, *at);
    for (const uint32_t *at = types; at < end; at += spirv_length(at))
        visit(a, &ids, at, is_decorated, &out);
    for (const uint32_t *at = types; at < end; at++)
        vec_push(a, &out, *at);
    s->words = out.data;
    s->len = out.len;
}
