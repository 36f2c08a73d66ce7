// SPDX-License-Identifier: Apache-2.0
// The quickstart's demo: a program as a user would write it around a generated model. It classifies held-out
// images of handwritten digits and shows some of them. Links with digits.c as `rlxc compile` wrote it; needs
// nothing else.
#include "digits.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PIXELS = 64, CLASSES = 10, MAX_IMAGES = 4096, SHOWN = 6 };

static RLX_ALIGNED unsigned char arena[DIGITS_ARENA_BYTES];

// Skips the header of a version-1 .npy file and reads up to n bytes of elements. Returns the number of bytes.
static size_t read_npy(const char *path, void *data, size_t n)
{
    unsigned char head[10];
    FILE *f = fopen(path, "rb");
    size_t got = 0;
    if (f != NULL && fread(head, 1, 10, f) == 10 && fseek(f, 10 + head[8] + 256 * head[9], SEEK_SET) == 0)
        got = fread(data, 1, n, f);
    if (f != NULL)
        fclose(f);
    return got;
}

static int largest(const float *probs)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        best = probs[i] > probs[best] ? i : best;
    return best;
}

// Images side by side, two characters a pixel.
static void draw(float images[][PIXELS], const unsigned char *labels, const unsigned char *answers)
{
    static const char shades[] = " .:-=+*#%@";
    for (int row = 0; row < 8; row++) {
        for (int image = 0; image < SHOWN; image++) {
            printf("  ");
            for (int col = 0; col < 8; col++) {
                const int shade = (int)(images[image][row * 8 + col] * 9.0f + 0.5f);
                printf("%c%c", shades[shade], shades[shade]);
            }
        }
        printf("\n");
    }
    for (int image = 0; image < SHOWN; image++)
        printf("  label %u, answer %u ", labels[image], answers[image]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static float images[MAX_IMAGES][PIXELS];
    static unsigned char labels[MAX_IMAGES], answers[MAX_IMAGES];
    float logits[CLASSES], probs[CLASSES];
    struct timespec start, end;
    rlx_ctx ctx;
    if (argc != 3)
        return 2;
    const size_t n = read_npy(argv[1], images, sizeof images) / sizeof images[0];
    if (n < SHOWN || read_npy(argv[2], labels, sizeof labels) < n) {
        fprintf(stderr, "cannot read %s or %s\n", argv[1], argv[2]);
        return 1;
    }
    rlx_status status = digits_init(&ctx, arena, sizeof arena, NULL, 0);
    size_t right = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (size_t i = 0; i < n && status == RLX_OK; i++) {
        status = digits(&ctx, images[i], logits, probs);
        answers[i] = (unsigned char)largest(probs);
        right += answers[i] == labels[i];
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (status != RLX_OK) {
        fprintf(stderr, "%s\n", rlx_status_text(status));
        return 1;
    }
    const double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    draw(images, labels, answers);
    printf("\n%zu of %zu held-out images right: %.2f %%, %.2f microseconds an image\n", right, n,
           100.0 * (double)right / (double)n, ns / (double)n * 1e-3);
    return right * 100 >= n * 97 ? 0 : 1;
}
