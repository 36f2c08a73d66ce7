// SPDX-License-Identifier: Apache-2.0
// Shows a picture of a digit and what models/digits takes it for.
#include "digits.h"
#include <stdio.h>
#include <string.h>

enum { SIZE = 8, CLASSES = 10 };

static const char shades[] = " .:-=+*#%@";
static const char *const picture[SIZE] = {
    " .+%@%. ",
    " **-+@: ",
    "    +#  ",
    "    -%. ",
    "     %+ ",
    "     ## ",
    "  -:-%= ",
    "  #@%+. ",
};

static RLX_ALIGNED unsigned char arena[DIGITS_ARENA_BYTES];

int main(void)
{
    float image[SIZE * SIZE], logits[CLASSES], probs[CLASSES];
    int best = 0;
    rlx_ctx ctx;
    for (int i = 0; i < SIZE * SIZE; i++)
        image[i] = (float)(strchr(shades, picture[i / SIZE][i % SIZE]) - shades) / 9.0f;
    rlx_status status = digits_init(&ctx, arena, sizeof arena, NULL, 0);
    if (status == RLX_OK)
        status = digits(&ctx, image, logits, probs);
    if (status != RLX_OK) {
        fprintf(stderr, "%s\n", rlx_status_text(status));
        return 1;
    }
    for (int i = 0; i < CLASSES; i++)
        best = probs[i] > probs[best] ? i : best;
    for (int row = 0; row < SIZE; row++)
        printf("%s\n", picture[row]);
    printf("this is a %d (%.1f %%)\n", best, 100.0 * (double)probs[best]);
    return 0;
}
