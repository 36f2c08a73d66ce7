// SPDX-License-Identifier: Apache-2.0
// The parts of a model that hears, one after the other in one program: sound becomes a spectrogram, that
// becomes rows, and a session of the decoder makes tokens from them. Standard input has the samples and the
// prompt in binary; what comes out are the logits behind the prompt, and the tokens of a greedy text.
#include "decoder.h"
#include "encoder.h"
#include "mel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 8000, VOCAB = 80, PROMPT = 4, TEXT = 8 };

static RLX_ALIGNED unsigned char memory[DECODER_SESSION_BYTES], more[DECODER_SESSION_BYTES];
static RLX_ALIGNED unsigned char mel_arena[MEL_ARENA_BYTES], encoder_arena[ENCODER_ARENA_BYTES];

static void need(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static const float *run(rlx_ctx *ctx, const rlx_model *model, void *memory_of, const void *input)
{
    need(rlx_init(ctx, model, memory_of, model->arena_bytes, NULL, 0, model->weights, model->weight_bytes) ==
             RLX_OK,
         "rlx_init");
    memcpy(rlx_input(ctx, 0), input, rlx_input_bytes(ctx, 0));
    need(rlx_run(ctx) == RLX_OK, "rlx_run");
    return (const float *)rlx_output(ctx, 0);
}

// Hears the samples and says what follows the prompt.
static void hear(rlx_session *s, const float *samples, const int32_t *prompt, int32_t *text)
{
    rlx_ctx features, encoder;
    const float *mel = run(&features, &mel_model, mel_arena, samples);
    const float *encoded = run(&encoder, &encoder_model, encoder_arena, mel);
    const size_t n = rlx_output_bytes(&encoder, 0) / sizeof *encoded;
    need(decoder_rewind(s, 0) == 0, "rewind");
    need(rlx_set_param(&s->ctx, "encoded", encoded, n) == RLX_OK, "rlx_set_param");
    need(decoder_feed(s, prompt, PROMPT) == 0, "feed");
    const float *logits = decoder_logits(s);
    need(logits != NULL, "logits");
    for (int i = 0; i < VOCAB; i++)
        printf("%.9g ", (double)logits[i]);
    for (int i = 0; i < TEXT; i++)
        text[i] = decoder_next(s, NULL);
    for (int i = 0; i < TEXT; i++)
        printf("%d ", (int)text[i]);
    printf("\n");
}

int main(void)
{
    static float samples[2][SAMPLES];
    static int32_t prompt[PROMPT];
    static unsigned char saved[1 << 20];
    int32_t text[TEXT], again[TEXT];
    rlx_session s, other;
    need(fread(samples, sizeof samples, 1, stdin) == 1 && fread(prompt, sizeof prompt, 1, stdin) == 1,
         "input");
    need(decoder_open(&s, memory, sizeof memory, NULL, 0) == 0, "open");
    need(decoder_feed(&s, prompt, PROMPT) == RLX_SESSION_MODEL && s.run_status == RLX_ERR_PARAM,
         "without sound");
    need(decoder_rewind(&s, 0) == 0, "rewind");
    hear(&s, samples[0], prompt, text);
    hear(&s, samples[1], prompt, text);
    hear(&s, samples[0], prompt, text); // as the first time

    // Another session that hears the same goes on where this one stood.
    need(decoder_rewind(&s, PROMPT) == 0, "rewind");
    const int64_t n = decoder_save(&s, saved, sizeof saved);
    need(n > 0 && (size_t)n <= sizeof saved, "save");
    need(decoder_open(&other, more, sizeof more, NULL, 0) == 0, "open");
    hear(&other, samples[0], prompt, again);
    need(decoder_restore(&other, saved, (size_t)n) == 0, "restore");
    for (int i = 0; i < TEXT; i++)
        need(decoder_next(&other, NULL) == text[i], "restored");
    need(decoder_fork(&other, &s) == 0, "fork");
    for (int i = 0; i < TEXT; i++)
        need(decoder_next(&other, NULL) == text[i], "forked");
    return 0;
}
