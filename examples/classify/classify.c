// SPDX-License-Identifier: Apache-2.0
// Classifies PNG files: reads them with libpng, crops and scales them to what the model wants, runs it,
// prints the most likely classes. The model was compiled with --name model; its first input is an image,
// [1, C, H, W] or [1, H, W, C] with one or three channels, its last output has a number for each class.
#include "image.h"
#include "model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CLASSES = 65536, MAX_LABEL = 80 };

typedef struct Options {
    ImageOptions image;
    const char *labels;
    int top;
} Options;

static RLX_ALIGNED unsigned char arena[MODEL_ARENA_BYTES];
static char labels[MAX_CLASSES][MAX_LABEL];
static float scores[MAX_CLASSES];
static int n_labels;

static const char usage[] =
    "usage: classify [OPTION]... FILE.png...\n"
    "  --labels FILE      names of the classes, one a line\n"
    "  --top N            how many classes are printed (3)\n"
    "  --scale X          pixels are 0 to X (1)\n"
    "  --mean A[,B,C]     subtracted from them (0), for each channel\n"
    "  --std A[,B,C]      by what they are divided then (1)\n"
    "  --crop X           share of the shorter side that is kept, around the middle (1)\n"
    "  --invert           for dark on white where the model was trained with white on dark\n"
    "  --imagenet         --mean .485,.456,.406 --std .229,.224,.225 --crop .875\n";

// One number, or one for each channel.
static int read_numbers(const char *text, float *values)
{
    const int n = sscanf(text, "%f,%f,%f", &values[0], &values[1], &values[2]);
    if (n == 1)
        values[1] = values[2] = values[0];
    return n == 1 || n == 3;
}

static void set_imagenet(ImageOptions *o)
{
    const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
    memcpy(o->mean, mean, sizeof mean);
    memcpy(o->std, std, sizeof std);
    o->crop = 0.875f;
}

// Reads an option. Returns the number of arguments that it took, or 0: not an option, or a bad value.
static int read_option(Options *o, const char *name, const char *value)
{
    ImageOptions *image = &o->image;
    int is_good = value != NULL;
    if (strcmp(name, "--imagenet") == 0) {
        set_imagenet(image);
        return 1;
    }
    if (strcmp(name, "--invert") == 0) {
        image->is_inverted = 1;
        return 1;
    }
    if (value == NULL) {
        return 0;
    } else if (strcmp(name, "--labels") == 0) {
        o->labels = value;
    } else if (strcmp(name, "--top") == 0) {
        o->top = (int)strtol(value, NULL, 10);
        is_good = o->top > 0;
    } else if (strcmp(name, "--scale") == 0) {
        image->scale = strtof(value, NULL);
        is_good = image->scale > 0;
    } else if (strcmp(name, "--crop") == 0) {
        image->crop = strtof(value, NULL);
        is_good = image->crop > 0 && image->crop <= 1;
    } else if (strcmp(name, "--mean") == 0) {
        is_good = read_numbers(value, image->mean);
    } else if (strcmp(name, "--std") == 0) {
        is_good = read_numbers(value, image->std) && image->std[0] * image->std[1] * image->std[2] != 0;
    } else {
        return 0;
    }
    return is_good ? 2 : 0;
}

static int read_labels(const char *path)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    while (n_labels < MAX_CLASSES && fgets(labels[n_labels], MAX_LABEL, f) != NULL) {
        labels[n_labels][strcspn(labels[n_labels], "\r\n")] = '\0';
        n_labels++;
    }
    fclose(f);
    return 1;
}

// Scores of models that end before the softmax are no probabilities yet.
static void make_probabilities(float *p, int n)
{
    float sum = 0, largest = p[0], least = p[0];
    for (int i = 0; i < n; i++) {
        sum += p[i];
        largest = p[i] > largest ? p[i] : largest;
        least = p[i] < least ? p[i] : least;
    }
    if (least >= 0 && fabsf(sum - 1) < 1e-3f)
        return;
    sum = 0;
    for (int i = 0; i < n; i++)
        sum += p[i] = expf(p[i] - largest);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

// Takes the largest ones out, one after the other.
static void print_top(const char *path, float *p, int n, int top)
{
    printf("%s:", path);
    for (int k = 0; k < top && k < n; k++) {
        int best = 0;
        for (int i = 1; i < n; i++)
            best = p[i] > p[best] ? i : best;
        printf("%s ", k > 0 ? "," : "");
        if (best < n_labels)
            printf("%s", labels[best]);
        else
            printf("%d", best);
        printf(" %.1f %%", 100 * p[best]);
        p[best] = -1;
    }
    printf("\n");
}

static int classify(rlx_ctx *ctx, const char *path, const Options *o)
{
    const rlx_model *m = ctx->model;
    const rlx_tensor *in = &m->inputs[0], *out = &m->outputs[m->n_outputs - 1];
    const int n = (int)(out->bytes / sizeof(float));
    const char *wrong = image_read(path, in->shape, &o->image, (float *)rlx_input(ctx, 0));
    rlx_status status;
    if (wrong != NULL) {
        fprintf(stderr, "%s: %s\n", path, wrong);
        return 0;
    }
    status = rlx_run(ctx);
    if (status != RLX_OK) {
        fprintf(stderr, "%s: %s\n", path, rlx_status_text(status));
        return 0;
    }
    memcpy(scores, rlx_output(ctx, m->n_outputs - 1), out->bytes);
    make_probabilities(scores, n);
    print_top(path, scores, n, o->top);
    return 1;
}

// What the compiler wrote must be a classifier of images.
static int check_model(const rlx_model *m)
{
    const rlx_tensor *in = &m->inputs[0], *out = &m->outputs[m->n_outputs - 1];
    if (m->n_inputs == 1 && in->dtype == RLX_F32 && in->rank == 4 && in->shape[0] == 1 &&
        image_channels(in->shape) != 0 && out->dtype == RLX_F32 && out->bytes <= sizeof scores)
        return 1;
    fprintf(stderr, "the model must take one image of f32 [1, C, H, W] or [1, H, W, C] with C 1 or 3, and "
                    "end in classes of f32\n");
    return 0;
}

int main(int argc, char **argv)
{
    Options o = {{{0, 0, 0}, {1, 1, 1}, 1, 1, 0}, NULL, 3};
    int i = 1, all_right = 1;
    rlx_ctx ctx;
    while (i < argc && strncmp(argv[i], "--", 2) == 0) {
        const int taken = read_option(&o, argv[i], argv[i + 1]);
        if (taken == 0)
            break;
        i += taken;
    }
    if (i >= argc || strncmp(argv[i], "--", 2) == 0) {
        fputs(usage, stderr);
        return 2;
    }
    if (o.labels != NULL && !read_labels(o.labels)) {
        fprintf(stderr, "cannot read %s\n", o.labels);
        return 1;
    }
    if (!check_model(&model_model) || model_init(&ctx, arena, sizeof arena, NULL, 0) != RLX_OK)
        return 1;
    for (; i < argc; i++)
        all_right &= classify(&ctx, argv[i], &o);
    return all_right ? 0 : 1;
}
