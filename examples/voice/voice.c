// SPDX-License-Identifier: Apache-2.0
// Voice activity: reads a sound file as a microphone would give it, 512 samples at a time, and prints a
// time line of the probability that somebody speaks, and behind it the stretches in which somebody did.
// The state of the network goes from chunk to chunk: it is a handle, bound to zeros once. Any model with
// the interface of silero_vad will do: `input` [1, n] with the samples of a chunk behind the last n - 512
// of those before, `state`, and `output`, a probability.
#include "model.h"
#include <sndfile.h>
#include <stdio.h>
#include <string.h>

enum {
    RATE = 16000,
    STEP = 512,
    PER_LINE = 64,
    LONGEST = 4096, // samples of a model's input
    MAX_CHANNELS = 16,
    PATIENCE = 8    // chunks (a quarter of a second) without voice that end a stretch of it
};

static RLX_ALIGNED unsigned char arena[MODEL_ARENA_BYTES], state[MODEL_STATE_BYTES];

// A line of the output, and the stretch of voice that goes on.
typedef struct Talk {
    long chunk;          // the next one
    long start, last;    // first and last chunk of the stretch; start is -1 where nobody speaks
    int found;           // stretches that have ended
    char line[PER_LINE + 1];
    char ended[256];     // what ended in this line
} Talk;

static double seconds(long chunk)
{
    return (double)chunk * STEP / RATE;
}

static void end_stretch(Talk *t)
{
    const size_t used = strlen(t->ended);
    if (t->start < 0)
        return;
    snprintf(t->ended + used, sizeof t->ended - used, "  %.2f to %.2f", seconds(t->start),
             seconds(t->last + 1));
    t->found++;
    t->start = -1;
}

static void print_line(Talk *t)
{
    if (t->line[0] != '\0')
        printf("%6.2f s  %-*s%s\n", seconds((t->chunk - 1) / PER_LINE * PER_LINE), PER_LINE, t->line,
               t->ended);
    fflush(stdout);
    memset(t->line, 0, sizeof t->line);
    t->ended[0] = '\0';
}

static void hear(Talk *t, float probability)
{
    t->line[t->chunk % PER_LINE] = "_.-=#"[(int)(probability * 4.99f)];
    if (probability >= 0.5f) {
        if (t->start < 0)
            t->start = t->chunk;
        t->last = t->chunk;
    } else if (t->chunk - t->last >= PATIENCE) {
        end_stretch(t);
    }
    t->chunk++;
    if (t->chunk % PER_LINE == 0)
        print_line(t);
}

// The next STEP samples of one channel, the mean of all; silence after the end. False where nothing is
// left.
static int read_chunk(SNDFILE *file, int channels, float *samples)
{
    float frames[STEP * MAX_CHANNELS];
    const sf_count_t n = sf_readf_float(file, frames, STEP);
    memset(samples, 0, STEP * sizeof *samples);
    for (sf_count_t i = 0; i < n; i++)
        for (int c = 0; c < channels; c++)
            samples[i] += frames[i * channels + c] / (float)channels;
    return n > 0;
}

// Zeros: nothing was heard before.
static rlx_status bind_state(rlx_ctx *ctx)
{
    static const float silence[MODEL_STATE_BYTES / sizeof(float)];
    return rlx_bind_handle(ctx, "state", silence, ctx->model->states[0].bytes);
}

static rlx_status listen(SNDFILE *file, int channels, Talk *talk)
{
    static float window[LONGEST];
    rlx_ctx ctx;
    rlx_status status = model_init(&ctx, arena, sizeof arena, state, sizeof state);
    if (status == RLX_OK)
        status = bind_state(&ctx);
    const size_t bytes = rlx_input_bytes(&ctx, MODEL_INPUT_input), n = bytes / sizeof(float);
    if (n < STEP || n > LONGEST)
        return RLX_ERR_SIZE;
    while (status == RLX_OK && read_chunk(file, channels, window + n - STEP)) {
        memcpy(rlx_input(&ctx, MODEL_INPUT_input), window, bytes);
#ifdef MODEL_INPUT_sr // silero_vad wants to be told
        *(int64_t *)rlx_input(&ctx, MODEL_INPUT_sr) = RATE;
#endif
        status = rlx_run(&ctx);
        if (status == RLX_OK)
            hear(talk, *(const float *)rlx_output(&ctx, MODEL_OUTPUT_output));
        memmove(window, window + STEP, (n - STEP) * sizeof *window);
    }
    end_stretch(talk);
    print_line(talk);
    return status;
}

int main(int argc, char **argv)
{
    SF_INFO info = {0};
    Talk talk = {.start = -1};
    if (argc != 2) {
        fprintf(stderr, "usage: voice FILE.wav, or - for standard input\n");
        return 2;
    }
    SNDFILE *file = sf_open(argv[1], SFM_READ, &info);
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", argv[1], sf_strerror(NULL));
        return 1;
    }
    if (info.samplerate != RATE || info.channels > MAX_CHANNELS) {
        fprintf(stderr, "%s: %d Hz, %d channels; wanted %d Hz: sox %s -r %d -c 1 FILE.wav\n", argv[1],
                info.samplerate, info.channels, RATE, argv[1], RATE);
        sf_close(file);
        return 1;
    }
    const rlx_status status = listen(file, info.channels, &talk);
    sf_close(file);
    if (status != RLX_OK) {
        fprintf(stderr, "%s\n", rlx_status_text(status));
        return 1;
    }
    printf("%d stretches of voice\n", talk.found);
    return 0;
}
