// SPDX-License-Identifier: Apache-2.0
// Cooperative matrices as SPV_KHR_cooperative_matrix has them, from a module with SPV_NV_cooperative_matrix:
// the one is what drivers of all vendors know, the other what glslang has known for longer. The difference is
// that types say what a matrix is used for (left or right factor, or sum), so that the right factors, which
// the NV types do not tell from left ones, get types of their own: a value is one if a product takes it as
// such, and so is what it was loaded from and stored to. KHR's matrices have products by elements, which GLSL
// does not: a text says them as quotients, of which no kernel needs the other kind.
#include "compiler/images/spirv.h"
#include "compiler/images/spirv_words.h"

#include <string.h>

// Opcodes and numbers of the SPIR-V specification.
enum {
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT = 43,
    OP_VARIABLE = 59,
    OP_LOAD = 61,
    OP_STORE = 62,
    OP_ACCESS_CHAIN = 65,
    OP_TYPE_NV = 5358,
    OP_LOAD_NV = 5359,
    OP_STORE_NV = 5360,
    OP_MUL_ADD_NV = 5361,
    OP_TYPE_KHR = 4456,
    OP_LOAD_KHR = 4457,
    OP_STORE_KHR = 4458,
    OP_MUL_ADD_KHR = 4459,
    OP_TYPE_FLOAT = 22,
    OP_F_MUL = 133,
    OP_F_DIV = 136,
    CAPABILITY_NV = 5357,
    CAPABILITY_KHR = 6022,
    CAPABILITY_BF16 = 5116,
    CAPABILITY_BF16_MATRIX = 5118,
    ENCODING_BF16 = 0
};

typedef enum Use { USE_LEFT, USE_RIGHT, USE_SUM, N_USES } Use;

typedef struct Pass {
    Arena *arena;
    const uint32_t *words;
    size_t len;
    bool *is_right;     // of an id: of a value, or of a variable
    bool *is_true;      // constants
    uint32_t *type_of;  // of a constant, its type
    uint32_t *right_of; // of a type: the same for right factors; 0: there is none
    bool *is_sum;       // of a type
    uint32_t use[N_USES];
    bool is_bf16;  // factors are
    uint32_t bf16; // that type; 0: there is none yet
    uint32_t bound;
    SpirvWords out;
} Pass;

static const char nv_name[] = "SPV_NV_cooperative_matrix", khr_name[] = "SPV_KHR_cooperative_matrix";
static const char bf16_name[] = "SPV_KHR_bfloat16";

// Either is a right factor if the other is one. True: that is news.
static bool join(Pass *p, uint32_t a, uint32_t b)
{
    const bool is_news = p->is_right[a] != p->is_right[b];
    p->is_right[a] = p->is_right[b] = p->is_right[a] || p->is_right[b];
    return is_news;
}

static bool spread(Pass *p, const uint32_t *at)
{
    switch (spirv_opcode(at)) {
    case OP_MUL_ADD_NV: {
        const bool is_news = !p->is_right[at[4]];
        p->is_right[at[4]] = true;
        return is_news;
    }
    case OP_LOAD:
    case OP_ACCESS_CHAIN:
        return join(p, at[2], at[3]);
    case OP_STORE:
        return join(p, at[1], at[2]);
    default:
        return false;
    }
}

static void find_right_factors(Pass *p)
{
    for (bool is_news = true; is_news;) {
        is_news = false;
        for (size_t i = SPIRV_HEADER; i < p->len; i += spirv_length(p->words + i))
            is_news = spread(p, p->words + i) || is_news;
    }
}

static void put(Pass *p, uint32_t op, const uint32_t *operands, uint32_t n)
{
    rlx_assert(n < 0xffff);
    vec_push(p->arena, &p->out, op | (n + 1) << 16);
    for (uint32_t i = 0; i < n; i++)
        vec_push(p->arena, &p->out, operands[i]);
}

// Numbers 0 to 2 of the type of a constant: uses of matrices, and orders in memory.
static void put_numbers(Pass *p, uint32_t type)
{
    for (uint32_t i = 0; i < N_USES && p->use[N_USES - 1] == 0; i++) {
        p->use[i] = p->bound++;
        put(p, OP_CONSTANT, (const uint32_t[]){type, p->use[i], i}, 3);
    }
}

// The type of elements of factors.
static uint32_t factor_type(Pass *p, uint32_t f16)
{
    if (!p->is_bf16)
        return f16;
    if (p->bf16 == 0) {
        p->bf16 = p->bound++;
        put(p, OP_TYPE_FLOAT, (const uint32_t[]){p->bf16, 16, ENCODING_BF16}, 3);
    }
    return p->bf16;
}

// A type of matrices, and the same for right factors; sums are those of f32, which no factors are.
static void put_matrix_type(Pass *p, const uint32_t *at)
{
    rlx_assert(spirv_length(at) == 6);
    static const uint32_t f32_bits = 32;
    uint32_t type[6] = {at[1], at[2], at[3], at[4], at[5], 0};
    put_numbers(p, p->type_of[at[3]]);
    p->is_sum[at[1]] = p->type_of[at[2]] == f32_bits;
    type[5] = p->use[p->is_sum[at[1]] ? USE_SUM : USE_LEFT];
    if (!p->is_sum[at[1]])
        type[1] = factor_type(p, type[1]);
    put(p, OP_TYPE_KHR, type, 6);
    if (p->is_sum[at[1]])
        return;
    type[0] = p->right_of[at[1]] = p->bound++;
    type[5] = p->use[USE_RIGHT];
    put(p, OP_TYPE_KHR, type, 6);
}

// An array of, or pointer to, another type: where that is one of factors there are two.
static void put_outer_type(Pass *p, const uint32_t *at, uint32_t inner)
{
    uint32_t type[3] = {at[1], at[2], at[3]};
    put(p, spirv_opcode(at), type, 3);
    if (p->right_of[at[inner]] == 0)
        return;
    type[0] = p->right_of[at[1]] = p->bound++;
    type[inner - 1] = p->right_of[at[inner]];
    put(p, spirv_opcode(at), type, 3);
}

// An instruction with type and result: of right factors by their type.
static void put_typed(Pass *p, const uint32_t *at)
{
    const size_t begin = p->out.len;
    put(p, spirv_opcode(at), at + 1, spirv_length(at) - 1);
    if (p->is_right[at[2]] && p->right_of[at[1]] != 0)
        p->out.data[begin + 1] = p->right_of[at[1]];
}

// The order (by rows or columns) comes before the stride.
static void put_access(Pass *p, const uint32_t *at, uint32_t op, uint32_t stride)
{
    rlx_assert(spirv_length(at) > stride + 1);
    const size_t begin = p->out.len;
    put(p, op, at + 1, spirv_length(at) - 1);
    p->out.data[begin + stride] = p->use[p->is_true[at[stride + 1]]];
    p->out.data[begin + stride + 1] = at[stride];
    if (op == OP_LOAD_KHR && p->is_right[at[2]])
        p->out.data[begin + 1] = p->right_of[at[1]];
}

static void put_name(Pass *p, const char *text)
{
    uint32_t name[sizeof khr_name / 4 + 1] = {0};
    const size_t bytes = strlen(text) + 1;
    rlx_assert(bytes <= sizeof name);
    memcpy(name, text, bytes);
    put(p, OP_EXTENSION, name, (uint32_t)(bytes + 3) / 4);
}

static void put_extension(Pass *p, const uint32_t *at)
{
    if (strcmp((const char *)(at + 1), nv_name) != 0) {
        put(p, OP_EXTENSION, at + 1, spirv_length(at) - 1);
        return;
    }
    put_name(p, khr_name);
    if (p->is_bf16)
        put_name(p, bf16_name);
}

static void put_capability(Pass *p, uint32_t capability)
{
    const bool is_nv = capability == CAPABILITY_NV;
    put(p, OP_CAPABILITY, (const uint32_t[]){is_nv ? CAPABILITY_KHR : capability}, 1);
    if (!is_nv || !p->is_bf16)
        return;
    put(p, OP_CAPABILITY, (const uint32_t[]){CAPABILITY_BF16}, 1);
    put(p, OP_CAPABILITY, (const uint32_t[]){CAPABILITY_BF16_MATRIX}, 1);
}

static void translate(Pass *p, const uint32_t *at)
{
    switch (spirv_opcode(at)) {
    case OP_CAPABILITY:
        put_capability(p, at[1]);
        break;
    case OP_EXTENSION:
        put_extension(p, at);
        break;
    case OP_TYPE_NV:
        put_matrix_type(p, at);
        break;
    case OP_TYPE_ARRAY:
        put_outer_type(p, at, 2);
        break;
    case OP_TYPE_POINTER:
        put_outer_type(p, at, 3);
        break;
    case OP_VARIABLE:
    case OP_LOAD:
    case OP_ACCESS_CHAIN:
        put_typed(p, at);
        break;
    case OP_F_DIV:
        put(p, p->is_sum[at[1]] ? OP_F_MUL : OP_F_DIV, at + 1, spirv_length(at) - 1); // of matrices
        break;
    case OP_LOAD_NV:
        put_access(p, at, OP_LOAD_KHR, 4);
        break;
    case OP_STORE_NV:
        put_access(p, at, OP_STORE_KHR, 3);
        break;
    default:
        put(p, spirv_opcode(at) == OP_MUL_ADD_NV ? OP_MUL_ADD_KHR : spirv_opcode(at), at + 1,
            spirv_length(at) - 1);
    }
}

// What later instructions ask of an earlier one.
static void remember(Pass *p, const uint32_t *at)
{
    if (spirv_opcode(at) == OP_CONSTANT)
        p->type_of[at[2]] = at[1];
    else if (spirv_opcode(at) == OP_TYPE_FLOAT)
        p->type_of[at[1]] = at[2]; // its bits
    else if (spirv_opcode(at) == OP_CONSTANT_TRUE)
        p->is_true[at[2]] = true;
}

void spirv_use_khr_matrices(Arena *a, Spirv *s, bool is_bf16)
{
    rlx_assert(s->wrong == NULL && s->len > SPIRV_HEADER);
    // Each id gets at most one more, and there are three numbers and a type.
    const size_t ids = 2 * (size_t)s->words[SPIRV_BOUND] + N_USES + 1;
    Pass p = {.arena = a,
              .words = s->words,
              .len = s->len,
              .is_right = ARENA_ARRAY(a, bool, ids),
              .is_true = ARENA_ARRAY(a, bool, ids),
              .type_of = ARENA_ARRAY(a, uint32_t, ids),
              .right_of = ARENA_ARRAY(a, uint32_t, ids),
              .is_sum = ARENA_ARRAY(a, bool, ids),
              .is_bf16 = is_bf16,
              .bound = s->words[SPIRV_BOUND]};
    find_right_factors(&p);
    for (uint32_t i = 0; i < SPIRV_HEADER; i++)
        vec_push(a, &p.out, s->words[i]);
    for (size_t i = SPIRV_HEADER; i < s->len; i += spirv_length(s->words + i)) {
        rlx_assert(i + spirv_length(s->words + i) <= s->len);
        remember(&p, s->words + i);
        translate(&p, s->words + i);
    }
    rlx_assert(p.bound <= ids);
    p.out.data[SPIRV_BOUND] = p.bound;
    s->words = p.out.data;
    s->len = p.out.len;
}
