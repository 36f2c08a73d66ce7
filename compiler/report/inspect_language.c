// SPDX-License-Identifier: Apache-2.0
// See inspect_language.h. The sizes are those of the states as the model was read, whatever the sizes of this
// compile are.
#include "compiler/report/inspect_language.h"
#include "compiler/import/llm/llm.h"
#include "compiler/job/language.h"

enum { LEAST = 512, STEP = 4, ROWS = 5 };

// Bytes of all states when P and T have these values.
static uint64_t state_bytes(const Job *j, int64_t past, int64_t tokens)
{
    const Graph *g = j->graph;
    const uint32_t n = g->dims->symbols.len;
    int64_t *value = ARENA_ARRAY(j->cli->arena, int64_t, n + 1);
    uint64_t sum = 0;
    value[dim_find_symbol(g->dims, "P")] = past;
    value[dim_find_symbol(g->dims, "T")] = tokens;
    for (uint32_t i = 0; i < g->states.len; i++) {
        const Node *s = graph_node(g, g->states.data[i].node);
        Shape shape = *s->shape;
        for (uint32_t k = 0; k < shape.rank; k++)
            if (!dim_eval(g->dims, s->shape->dim[k], (DimValues){value, n}, &shape.dim[k]))
                return 0;
        sum += type_bytes((DType)s->dtype, &shape);
    }
    return sum;
}

// Factors of floats are f32 in the program; those in blocks stay as they are.
static uint64_t bytes_of(const LlmAdapter *adapter)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < adapter->tensors.len; i++) {
        const LlmTensor *t = &adapter->tensors.data[i].tensor;
        uint64_t n = 1;
        for (uint32_t k = 0; k < t->rank; k++)
            n *= (uint64_t)t->dim[k];
        sum += t->format != NULL ? n / t->elements * t->bytes : n * sizeof(float);
    }
    return sum;
}

void inspect_adapters_json(const Job *j, Str *out)
{
    for (uint32_t i = 0; i < j->n_adapters; i++) {
        const LlmAdapter *one = &j->adapters[i];
        str_printf(out, "%s{\"parameter\": \"%s\", \"products\": %u, \"factor_bytes\": %llu, \"scale\": ",
                   i == 0 ? "  \"adapters\": [" : ", ", one->param, one->tensors.len / 2,
                   (unsigned long long)bytes_of(one));
        str_f64(out, one->scale);
        str_add(out, i + 1 == j->n_adapters ? "}],\n" : "}");
    }
}

static void print_adapters(const Job *j)
{
    for (uint32_t i = 0; i < j->n_adapters; i++) {
        const LlmAdapter *one = &j->adapters[i];
        Str scale = str_new(j->cli->arena);
        str_f64(&scale, one->scale);
        printf("adapter %s: %u products, %llu bytes of factors, scale %s\n", one->param, one->tensors.len / 2,
               (unsigned long long)bytes_of(one), str_text(&scale));
    }
}

void inspect_language_print(const Job *j)
{
    print_adapters(j);
    if (!language_is(j) || j->slots != 0)
        return;
    const uint64_t one = state_bytes(j, 0, 1), per_token = state_bytes(j, 1, 1) - one;
    const uint64_t rings = one - per_token; // of layers that keep their windows only
    printf("language model: %s; caches %llu bytes a token\n", language_name(j),
           (unsigned long long)per_token);
    printf("  tokens of context (--context), bytes of caches:");
    int64_t context = LEAST;
    for (uint32_t i = 0; i < ROWS; i++, context *= STEP)
        printf("%s %lld %llu", i == 0 ? "" : ",", (long long)context,
               (unsigned long long)(rings + per_token * (uint64_t)(context + llm_chunk(context) - 1)));
    printf("\n");
}
