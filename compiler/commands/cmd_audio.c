// SPDX-License-Identifier: Apache-2.0
// rlxc run --audio: sound into text. The three parts of a model that hears run one after the other, for each
// stretch of sound that the model takes. Separate from --prompt, whose texts have no parts and no sound.
#include "compiler/commands/cmd_audio.h"
#include "compiler/commands/speaker.h"
#include "compiler/import/hf/hf.h"
#include "compiler/import/llm/mel.h"
#include "compiler/import/tensors/wav.h"
#include "compiler/system/json_text.h"
#include "runtime-lite/text/rlx_decode.h"

#include <math.h>
#include <string.h>

// A part that is built and open.
typedef struct Part {
    Job job;
    Native native;
    Tensor in, out;
} Part;

typedef struct Listener {
    Cli *cli;
    Part features, encoder;
    Job job; // of the decoder
    Speaker speaker;
    int32_t language; // -1: not known yet, or the model has one only
    int32_t prompt[4];
    uint32_t n_prompt;
    Str text, tokens;
} Listener;

// --- parts ---------------------------------------------------------------------------------------

static bool open_part(Listener *l, const char *name, Part *p)
{
    Job *j = &p->job;
    l->cli->options.signature = name;
    if (!job_begin(j, l->cli, "native", false) || !native_check_cpu(j) || !job_plan(j) ||
        !native_emit(j, NULL) || !native_open(j, NULL, &p->native))
        return false;
    const PlanIo *io = j->plan->inputs.data;
    rlx_assert(j->plan->inputs.len == 1 && j->plan->outputs.len == 1 && io->dtype == DTYPE_f32);
    p->in = tensor_new(l->cli->arena, DTYPE_f32, io->rank, io->dim);
    return true;
}

static bool run_part(Part *p, const void *data)
{
    p->in.data = (void *)(uintptr_t)data; // it is read only
    return native_run(&p->job, &p->native, &p->in, &p->out);
}

static bool open_all(Listener *l)
{
    Cli *c = l->cli;
    HfAbout about;
    const char *path = c->options.args.len == 1 ? c->options.args.data[0] : "";
    if (c->options.prompt != NULL || c->options.signature != NULL)
        return diag_error(c->diag, (Span){0}, E0003, "--audio goes with neither --prompt nor --signature");
    if (!hf_about(c->arena, path, &about) || !str_equal(about.arch, "whisper"))
        return diag_error(c->diag, (Span){0}, E0003, "--audio: expected a folder of Whisper");
    l->speaker.job = &l->job;
    if (!open_part(l, "features", &l->features) || !open_part(l, "encoder", &l->encoder))
        return false;
    c->options.signature = "decoder";
    return speaker_open(&l->speaker, c, "--audio");
}

// --- tokens --------------------------------------------------------------------------------------

static bool is_control(const Listener *l, int32_t token)
{
    return l->speaker.vocab.type[token] == RLX_TOKEN_CONTROL;
}

// -1: the vocabulary has no such token of control.
static int32_t find_token(const Listener *l, const char *text)
{
    const rlx_vocab *v = &l->speaker.vocab;
    for (uint32_t t = 0; t < v->n_tokens; t++) {
        size_t n = 0;
        const uint8_t *own = rlx_token_text(v, t, RLX_TOKENS_CONTROL, &n);
        if (is_control(l, (int32_t)t) && n == strlen(text) && memcmp(own, text, n) == 0)
            return (int32_t)t;
    }
    return -1;
}

// "<|en|>": two or three letters.
static bool is_language(const Listener *l, int32_t token)
{
    size_t n = 0;
    const uint8_t *own = rlx_token_text(&l->speaker.vocab, (uint32_t)token, RLX_TOKENS_CONTROL, &n);
    if (!is_control(l, token) || n < 6 || n > 7 || memcmp(own, "<|", 2) != 0 ||
        memcmp(own + n - 2, "|>", 2) != 0)
        return false;
    for (size_t i = 2; i < n - 2; i++)
        if (own[i] < 'a' || own[i] > 'z')
            return false;
    return true;
}

static bool is_text(const Listener *l, int32_t token)
{
    return !is_control(l, token) || token == l->speaker.vocab.eos;
}

// The most likely token of those that count; -1: there are none.
static int32_t best_of(const Listener *l, bool (*counts)(const Listener *, int32_t))
{
    const float *logits = speaker_logits(&l->speaker);
    int32_t best = -1;
    for (int32_t t = 0; t < (int32_t)l->speaker.vocab.n_tokens; t++)
        if (counts(l, t) && (best < 0 || logits[t] > logits[best]) && !isnan(logits[t]))
            best = t;
    return best;
}

// What the model is to do, behind the token with which texts begin: the language is that of the sound.
static bool make_prompt(Listener *l)
{
    Speaker *s = &l->speaker;
    const int32_t start = find_token(l, "<|startoftranscript|>"), task = find_token(l, "<|transcribe|>");
    const int32_t plain = find_token(l, "<|notimestamps|>");
    if (s->context < 5)
        return diag_error(l->cli->diag, (Span){0}, E0003,
                          "--audio: expected a context of at least 5 tokens, found %lld",
                          (long long)s->context);
    if (start < 0)
        return diag_error(l->cli->diag, (Span){0}, E0003,
                          "--audio: the vocabulary has no token <|startoftranscript|>");
    speaker_set(s, &start, 1);
    if (!speaker_feed(s))
        return false;
    l->language = best_of(l, is_language);
    l->prompt[l->n_prompt++] = start;
    if (l->language >= 0)
        l->prompt[l->n_prompt++] = l->language;
    if (l->language >= 0 && task >= 0)
        l->prompt[l->n_prompt++] = task;
    if (plain >= 0)
        l->prompt[l->n_prompt++] = plain;
    return true;
}

// --- text ----------------------------------------------------------------------------------------

static bool write_text(Listener *l)
{
    Speaker *s = &l->speaker;
    rlx_stream stream = {0};
    const size_t room = RLX_STREAM_BYTES(s->vocab.longest);
    char *piece = ARENA_ARRAY(l->cli->arena, char, room);
    speaker_set(s, l->prompt, l->n_prompt);
    bool ok = speaker_feed(s);
    while (ok && s->n < s->context) {
        const int32_t token = best_of(l, is_text);
        if (token < 0 || token == s->vocab.eos)
            break;
        str_printf(&l->tokens, "%s%d", l->tokens.len != 0 ? ", " : "", (int)token);
        speaker_give_out(s, piece, rlx_stream_token(&s->vocab, &stream, token, 0, piece, room), &l->text);
        speaker_add(s, token);
        ok = s->n == s->context || speaker_feed(s);
    }
    speaker_give_out(s, piece, rlx_stream_end(&stream, piece), &l->text);
    return ok;
}

// A stretch of sound, as long as the model takes.
static bool hear(Listener *l, const float *samples)
{
    Speaker *s = &l->speaker;
    if (!run_part(&l->features, samples) || !run_part(&l->encoder, l->features.out.data))
        return false;
    const Tensor *t = &l->encoder.out;
    const rlx_status status = rlx_set_param_bytes(&s->native.ctx, LLM_ENCODED, t->data,
                                                  (size_t)t->numel * sizeof(float));
    if (status != RLX_OK)
        return diag_error(l->cli->diag, (Span){0}, E0402, "the generated code refused the sound: %s",
                          rlx_status_text(status));
    s->n_fed = 0; // all depends on the sound
    if (l->n_prompt == 0 && !make_prompt(l))
        return false;
    s->n_fed = 0;
    return write_text(l);
}

static bool hear_all(Listener *l, const Wav *wav)
{
    const int64_t most = l->features.in.numel;
    float *samples = ARENA_ARRAY(l->cli->arena, float, (size_t)most);
    for (int64_t at = 0; at < wav->n; at += most) {
        const int64_t n = wav->n - at < most ? wav->n - at : most;
        memset(samples, 0, (size_t)most * sizeof *samples);
        memcpy(samples, wav->samples + at, (size_t)n * sizeof *samples);
        if (!hear(l, samples))
            return false;
    }
    return true;
}

static void print_json(const Listener *l)
{
    size_t n = 0;
    const char *language = "";
    if (l->language >= 0)
        language = (const char *)rlx_token_text(&l->speaker.vocab, (uint32_t)l->language,
                                                RLX_TOKENS_CONTROL, &n);
    printf("{\n  \"language\": \"%.*s\",\n  \"tokens\": [%s],\n  \"text\": \"%s\"\n}\n",
           n > 4 ? (int)n - 4 : 0, language + (n > 4 ? 2 : 0), str_text(&l->tokens),
           json_text(l->cli->arena, str_text(&l->text)));
}

ExitCode cmd_run_audio(Cli *c)
{
    Wav wav;
    Listener *l = ARENA_NEW(c->arena, Listener);
    *l = (Listener){.cli = c, .language = -1, .text = str_new(c->arena), .tokens = str_new(c->arena)};
    if (!wav_read(c->arena, c->diag, c->options.audio, &wav))
        return cli_fail(c);
    if (wav.rate != MEL_RATE) {
        diag_error(c->diag, (Span){0}, E0003, "--audio %s: expected %d samples of a second, found %lld",
                   c->options.audio, MEL_RATE, (long long)wav.rate);
        return cli_fail(c);
    }
    if (!open_all(l))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (!hear_all(l, &wav))
        return cli_fail(c);
    if (c->options.json != NULL)
        print_json(l);
    else
        printf("\n");
    native_close(&l->features.native);
    native_close(&l->encoder.native);
    native_close(&l->speaker.native);
    return EXIT_OK;
}
