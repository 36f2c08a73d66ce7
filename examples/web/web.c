// SPDX-License-Identifier: Apache-2.0
// What the page calls. Memory is all static: the page reads and writes it at the addresses that it asks for.
#include "digits.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

static RLX_ALIGNED unsigned char arena[DIGITS_ARENA_BYTES];
static float image[64], logits[10], probs[10];

float *EXPORT(image_at)(void)
{
    return image;
}

float *EXPORT(logits_at)(void)
{
    return logits;
}

float *EXPORT(probs_at)(void)
{
    return probs;
}

// Classifies the image, `times` times (for a clock of few digits). 0, or an rlx_status.
int EXPORT(classify)(int times)
{
    rlx_ctx ctx;
    rlx_status status = digits_init(&ctx, arena, sizeof arena, NULL, 0);
    for (int i = 0; i < times && status == RLX_OK; i++)
        status = digits(&ctx, image, logits, probs);
    return (int)status;
}
