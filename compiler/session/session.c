// SPDX-License-Identifier: Apache-2.0
// See session.h.
#include "compiler/session/session.h"
#include "base/map.h"
#include "compiler/import/hf/hf.h"
#include "compiler/import/llm/llm.h"
#include "compiler/job/append.h"
#include "compiler/system/rawfile.h"
#include "runtime-lite/text/rlx_sample.h"
#include <string.h>

// As rlx_session.h has them, which needs the types of a model.
enum { LAST_AND_BIASES = 64 + 1024, STOP_BYTES = 512 };
// A text in the memory of a session: so many bytes for each token of the context, within bounds.
enum { BYTES_A_TOKEN = 4, LEAST_TEXT = 1024, MOST_TEXT = 1 << 16 };
// Of large files only pieces decide which one it is: all of the first bytes, which say what is in it, and
// samples of the rest.
enum { WHOLE_BYTES = 1 << 25, SAMPLES = 256, SAMPLE_BYTES = 4096 };

typedef enum Wish { WISH_AUTO, WISH_YES, WISH_NO } Wish;

static bool read_wish(const Job *j, Wish *out)
{
    static const char *const words[] = {"auto", "yes", "no"};
    const char *given = j->cli->options.session;
    *out = WISH_AUTO;
    for (int i = 0; given != NULL && i < 3; i++)
        if (strcmp(given, words[i]) == 0)
            *out = (Wish)i;
    return given == NULL || strcmp(given, words[*out]) == 0 ||
           diag_error(j->cli->diag, (Span){0}, E0003, "--session %s: expected auto, yes or no", given);
}

// --- what a model has ----------------------------------------------------------------------------

// Sessions go back to any token, and copy the rows of tokens: [heads, rows, size], of which row i is token i,
// or [heads * rows, size] in pages. Rings, and caches with a row for attention sinks, are others. States of
// fixed size are copied whole.
static bool has_plain_caches(const Job *j, const LanguageSizes *sizes)
{
    for (uint32_t i = 0; i < j->plan->states.len && sizes->cache_rows != 0; i++) {
        const PlanIo *io = &j->plan->states.data[i];
        const bool has_rows = j->slots != 0 ? io->rank == 2 && io->dim[0] % sizes->cache_rows == 0
                                            : io->rank == 3 && io->dim[1] == sizes->cache_rows;
        if (!has_rows)
            return false;
    }
    return true;
}

// Of the logits of one token.
static size_t row_bytes(const Job *j)
{
    const PlanIo *logits = j->plan->outputs.data;
    return (size_t)logits->bytes / (size_t)logits->dim[0];
}

static bool has_vocabulary(Job *j)
{
    GgufFile f;
    RawFile json;
    Arena *a = j->cli->arena;
    Diag quiet = diag_new(a);
    if (hf_is_folder(j->model))
        return rawfile_peek(a, arena_printf(a, "%s/tokenizer.json", j->model), &json);
    return gguf_open(a, &quiet, j->model, &f) && gguf_string(&f, "tokenizer.ggml.model") != NULL;
}

// Why a model gets none; NULL: it does. *is_plain: nothing is wrong with the file, which just has no
// vocabulary, or the sizes were chosen otherwise.
static const char *why_not(Job *j, Session *s, bool *is_plain)
{
    Arena *a = j->cli->arena;
    Diag quiet = diag_new(a);
    *is_plain = true;
    s->is_embedder = language_embeds(j, &s->sizes);
    if (!s->is_embedder && !language_is(j))
        return "the model is no language model in GGUF or a folder";
    if (j->slots != 0 && !language_slots(j, &s->sizes))
        return "the size T is not open, or the first output has not the logits of one token of each slot";
    if (j->slots == 0 && !s->is_embedder && !language_sizes(j, &s->sizes))
        return "the sizes T and P are not open, or the first output has not the logits of one token";
    if (!s->is_embedder && !has_plain_caches(j, &s->sizes))
        return "its caches have not one row for each token, in order (attention sinks or --windows ring)";
    if (!has_vocabulary(j))
        return "the file has no vocabulary";
    *is_plain = false;
    if (!vocab_open(a, &quiet, j->model, &s->vocab))
        return quiet.items.len != 0 ? quiet.items.data[0].message : "its vocabulary cannot be read";
    if (s->is_embedder)
        return NULL;
    const size_t logits = row_bytes(j) / sizeof(float);
    if (logits < s->vocab.n_tokens)
        return arena_printf(a, "the vocabulary has %u tokens, and the model logits for %zu",
                            s->vocab.n_tokens, logits);
    return NULL;
}

// --- which model it is ---------------------------------------------------------------------------

static uint64_t hash_file(Arena *a, const char *path, uint64_t hash)
{
    RawFile f;
    if (!rawfile_peek(a, path, &f))
        return hash;
    const size_t whole = f.len < WHOLE_BYTES ? f.len : WHOLE_BYTES;
    hash = hash_bytes64(f.data, whole, hash ^ f.len);
    for (size_t i = 0; whole < f.len && i < SAMPLES; i++) {
        const size_t room = f.len - whole, at = whole + room / SAMPLES * i;
        hash = hash_bytes64(f.data + at, f.len - at < SAMPLE_BYTES ? f.len - at : SAMPLE_BYTES, hash);
    }
    return hash;
}

// Of a folder, all of its files that were read count: weights, config.json, the vocabulary.
static uint64_t fingerprint_of(const Job *j)
{
    uint32_t n = 0;
    uint64_t hash = 0;
    if (!hf_is_folder(j->model))
        return hash_file(j->cli->arena, j->model, 0);
    const ReadFile *read = rawfile_list_read(&n);
    const size_t len = strlen(j->model);
    for (uint32_t i = 0; i < n; i++)
        if (strncmp(read[i].path, j->model, len) == 0)
            hash = hash_file(j->cli->arena, read[i].path, hash);
    return hash;
}

// --- sizes ---------------------------------------------------------------------------------------

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void find_bytes(const Job *j, Session *s)
{
    const int64_t context = s->sizes.context;
    const size_t piece = RLX_STREAM_BYTES(s->vocab.longest);
    const size_t wanted = context < MOST_TEXT ? (size_t)context * BYTES_A_TOKEN : MOST_TEXT;
    s->text_bytes = wanted < LEAST_TEXT ? LEAST_TEXT : wanted > MOST_TEXT ? MOST_TEXT : wanted;
    uint32_t more = 0;
    const size_t text = vocab_work(&s->vocab, &more) * (s->text_bytes + 1) + more;
    s->bytes.arena = j->emitted.arena_bytes;
    s->bytes.state = j->emitted.state_bytes;
    s->bytes.tokens = (size_t)context * sizeof(int32_t);
    s->bytes.logits = row_bytes(j);
    s->bytes.rows = 1 + (size_t)s->sizes.drafts;
    s->bytes.out = piece + 2 * STOP_BYTES;
    s->bytes.n = (size_t)s->sizes.n;
    if (j->slots != 0) // the pages of each slot, and the slots of each page
        s->bytes.pages = (s->bytes.n + 1) * (size_t)(context / LLM_PAGE) * sizeof(int32_t);
    s->has_slots = j->slots != 0;
    s->bytes.work = larger(larger(piece, text), RLX_SAMPLE_BYTES(s->vocab.n_tokens, LAST_AND_BIASES));
}

static void note_bytes(Job *j, const rlx_session_sizes *b)
{
    const char *what = j->slots == 0
                           ? "session"
                           : arena_printf(j->cli->arena, "%lld sessions", (long long)j->slots);
    j->session_bytes = rlx_session_bytes(b);
    j->session = arena_printf(j->cli->arena,
                              "%s %zu bytes: arena %zu, state %zu, tokens and logits %zu, text and "
                              "sampling %zu\n",
                              what, j->session_bytes, b->arena, b->state,
                              b->n * (b->tokens + b->rows * b->logits), b->n * b->out + b->work + b->pages);
}

bool session_find(Job *j, Session *out)
{
    Wish wish;
    bool is_plain = true;
    rlx_assert(j->plan != NULL && j->emitted.files.len != 0);
    *out = (Session){0};
    if (!read_wish(j, &wish))
        return false;
    if (wish == WISH_NO || (wish == WISH_AUTO && !language_is(j) && !language_embeds(j, &out->sizes)))
        return true;
    const char *why = why_not(j, out, &is_plain);
    if (why != NULL && wish == WISH_YES)
        return diag_error(j->cli->diag, (Span){0}, E0003, "--session yes: %s", why);
    if (why != NULL && !is_plain)
        diag_warning(j->cli->diag, (Span){0}, E0116, "no sessions in the generated code: %s", why);
    out->is_there = why == NULL;
    if (why != NULL || out->is_embedder)
        return true;
    out->fingerprint = j->host.load != NULL ? j->host.load->hash : fingerprint_of(j);
    find_bytes(j, out);
    note_bytes(j, &out->bytes);
    return true;
}

// --- files ---------------------------------------------------------------------------------------

void session_add(Job *j, const Session *s)
{
    Arena *a = j->cli->arena;
    Str header = str_new(a), code = str_new(a);
    if (!s->is_there)
        return;
    if (s->is_embedder)
        embed_emit_header(s, j->host.name, &header);
    else
        session_emit_header(s, j->host.name, &header);
    session_emit_code(s, j->host.name, &code);
    job_append(j, arena_printf(a, "%s.h", j->host.name), &header);
    job_append(j, arena_printf(a, "%s.c", j->host.name), &code);
    j->emitted.code_bytes += code.len;
}
