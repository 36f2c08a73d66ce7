// SPDX-License-Identifier: Apache-2.0
// Greedy decoding with the generated code of a language model that has its cache as inputs past_* and outputs
// present_*: [1, heads, tokens, size]. The cache has a fixed number of tokens; it starts out masked, and
// every run drops its oldest token. Usage: generate FIRST-TOKEN COUNT
#include "net.h"
#include <stdio.h>
#include <stdlib.h>

static void *input(rlx_ctx *ctx, const char *name)
{
    return rlx_input(ctx, (uint32_t)rlx_find(net_model.inputs, net_model.n_inputs, name));
}

static const float *output(rlx_ctx *ctx, const char *name)
{
    return rlx_output(ctx, (uint32_t)rlx_find(net_model.outputs, net_model.n_outputs, name));
}

// present without its first token becomes past. Inputs are consumed by a run, so caches are kept outside.
static void keep(rlx_ctx *ctx, const rlx_tensor *past, float *cache)
{
    char name[64];
    const float *from;
    int64_t h;
    const int64_t size = past->shape[3], n = past->shape[2] * size;
    snprintf(name, sizeof name, "present%s", past->name + strlen("past"));
    from = output(ctx, name);
    for (h = 0; h < past->shape[1]; h++)
        memcpy(cache + h * n, from + h * (n + size) + size, (size_t)n * sizeof *cache);
}

static int64_t best_token(const float *logits, size_t n)
{
    size_t best = 0, i;
    for (i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int64_t)best;
}

int main(int argc, char **argv)
{
    rlx_ctx ctx;
    uint32_t i;
    const int64_t count = argc == 3 ? atoll(argv[2]) : 0;
    const uint32_t n = net_model.n_inputs;
    const size_t n_mask =
        net_model.inputs[rlx_find(net_model.inputs, n, "attention_mask")].bytes / sizeof(int64_t);
    const size_t n_logits =
        net_model.outputs[rlx_find(net_model.outputs, net_model.n_outputs, "logits")].bytes / 4;
    int64_t token = argc == 3 ? atoll(argv[1]) : 0, step;
    int64_t *mask = calloc(n_mask, sizeof *mask);
    float **cache = calloc(n, sizeof *cache);
    void *arena = aligned_alloc(RLX_ALIGNMENT, (NET_ARENA_BYTES + 63u) / 64u * 64u);
    if (mask == NULL || cache == NULL || arena == NULL ||
        net_init(&ctx, arena, NET_ARENA_BYTES, NULL, 0) != RLX_OK)
        return 1;
    for (i = 0; i < n; i++)
        cache[i] = calloc(1, net_model.inputs[i].bytes);
    printf("%lld", (long long)token);
    for (step = 0; step < count; step++) {
        mask[n_mask - 1 - (size_t)step] = 1; // one more token is seen, from the back
        for (i = 0; i < n; i++)
            memcpy(rlx_input(&ctx, i), cache[i], net_model.inputs[i].bytes);
        memcpy(input(&ctx, "input_ids"), &token, sizeof token);
        memcpy(input(&ctx, "position_ids"), &step, sizeof step);
        memcpy(input(&ctx, "attention_mask"), mask, n_mask * sizeof *mask);
        if (rlx_run(&ctx) != RLX_OK)
            return 1;
        token = best_token(output(&ctx, "logits"), n_logits);
        printf(" %lld", (long long)token);
        for (i = 0; i < n; i++)
            if (strncmp(net_model.inputs[i].name, "past", 4) == 0)
                keep(&ctx, &net_model.inputs[i], cache[i]);
    }
    printf("\n");
    for (i = 0; i < n; i++)
        free(cache[i]);
    free(cache);
    free(mask);
    free(arena);
    return 0;
}
