// SPDX-License-Identifier: Apache-2.0
// See language.h.
#include "compiler/job/language.h"
#include "compiler/import/gguf/gguf.h"
#include "compiler/import/hf/hf.h"
#include "compiler/import/llm/llm.h"
#include "compiler/job/adapters.h"
#include "compiler/job/open_sizes.h"
#include "compiler/system/rawfile.h"

#include <string.h>

enum { MOST_DRAFTS = 64 };

static bool read_kv(Job *j)
{
    const char *given = j->cli->options.kv;
    j->has_f16_caches = given != NULL && strcmp(given, "f16") == 0;
    return given == NULL || j->has_f16_caches || strcmp(given, "f32") == 0 ||
           diag_error(j->cli->diag, (Span){0}, E0003, "--kv %s: expected f32 or f16", given);
}

static bool read_windows(Job *j)
{
    const char *given = j->cli->options.windows;
    j->has_rings = given != NULL && strcmp(given, "ring") == 0;
    return given == NULL || j->has_rings || strcmp(given, "all") == 0 ||
           diag_error(j->cli->diag, (Span){0}, E0003, "--windows %s: expected all or ring", given);
}

static bool read_slots(Job *j)
{
    const char *given = j->cli->options.slots;
    return given == NULL ||
           (str_parse_i64(given, strlen(given), &j->slots) && j->slots >= 1 && j->slots <= 1024) ||
           diag_error(j->cli->diag, (Span){0}, E0003, "--slots %s: expected a whole number from 1 to 1024",
                      given);
}

static bool read_drafts(Job *j)
{
    const char *given = j->cli->options.drafts;
    return given == NULL ||
           (str_parse_i64(given, strlen(given), &j->drafts) && j->drafts >= 1 && j->drafts <= MOST_DRAFTS) ||
           diag_error(j->cli->diag, (Span){0}, E0003, "--drafts %s: expected a whole number from 1 to %d",
                      given, MOST_DRAFTS);
}

static bool read_context(Job *j)
{
    const char *given = j->cli->options.context;
    return given == NULL ||
           (str_parse_i64(given, strlen(given), &j->context) && j->context >= 1 &&
            j->context < IMPORT_OPEN_MAX) ||
           diag_error(j->cli->diag, (Span){0}, E0003,
                      "--context %s: expected a number of tokens from 1 to 1048575", given);
}

// Names apart by commas: one of last and all, one of embedding and mean, or both.
static bool read_outputs(Job *j)
{
    static const char *const names[] = {"last", "all", "embedding", "mean"};
    const char *given = j->cli->options.llm_outputs;
    for (const char *at = given; at != NULL;) {
        const size_t n = strcspn(at, ",");
        uint32_t i = 0;
        while (i < 4 && (strlen(names[i]) != n || strncmp(at, names[i], n) != 0))
            i++;
        const uint32_t kind = i < 2 ? LLM_GIVES_LAST | LLM_GIVES_ALL : LLM_GIVES_STATE | LLM_GIVES_MEAN;
        if (i == 4 || (j->outputs & kind) != 0)
            return diag_error(j->cli->diag, (Span){0}, E0003,
                              "--outputs %s: expected last or all, embedding or mean, or two of them such as "
                              "last,mean",
                              given);
        j->outputs |= 1u << i;
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return true;
}

bool language_read(Job *j)
{
    if (!read_kv(j) || !read_windows(j) || !read_context(j) || !read_outputs(j) || !read_slots(j) ||
        !read_drafts(j) || !adapters_read(j))
        return false;
    return j->slots == 0 || (j->outputs & LLM_GIVES_MEAN) == 0 ||
           diag_error(j->cli->diag, (Span){0}, E0003,
                      "--outputs %s: expected no mean with --slots: a run has tokens of several sequences",
                      j->cli->options.llm_outputs);
}

static bool takes_tokens(const Job *j)
{
    RawFile f;
    return dim_find_symbol(j->graph->dims, "T") >= 0 &&
           (hf_is_folder(j->model) ||
            (rawfile_peek(j->cli->arena, j->model, &f) && gguf_is(f.data, f.len)));
}

bool language_is(const Job *j)
{
    return (j->slots != 0 || dim_find_symbol(j->graph->dims, "P") >= 0) && takes_tokens(j);
}

static const char *describe(Arena *a, const HfAbout *about)
{
    return arena_printf(a, "%s, %lld layers of %lld, made for %lld tokens", about->arch,
                        (long long)about->layers, (long long)about->width, (long long)about->context);
}

static int64_t entry_of(const GgufFile *f, const char *arch, const char *key)
{
    uint64_t v = 0;
    gguf_uint(f, arena_printf(f->arena, "%s.%s", arch, key), &v);
    return (int64_t)v;
}

const char *language_name(const Job *j)
{
    GgufFile f;
    HfAbout about;
    Arena *a = j->cli->arena;
    Diag quiet = diag_new(a); // it was read before
    if (hf_about(a, j->model, &about))
        return describe(a, &about);
    if (!gguf_open(a, &quiet, j->model, &f))
        return "";
    const char *arch = gguf_string(&f, "general.architecture");
    about = (HfAbout){arch, entry_of(&f, arch, "block_count"), entry_of(&f, arch, "embedding_length"),
                      entry_of(&f, arch, "context_length")};
    return describe(a, &about);
}

bool language_is_encoder(Arena *a, const char *path)
{
    GgufFile f;
    HfAbout about;
    Diag quiet = diag_new(a);
    if (hf_about(a, path, &about))
        return llm_is_encoder(about.arch);
    return gguf_open(a, &quiet, path, &f) && llm_is_encoder(gguf_string(&f, "general.architecture"));
}

static bool has_sizes(const Job *j)
{
    return j->given.sizes.len != 0 || j->given.shapes.len != 0 || j->pipeline.is_dynamic || j->buckets.n != 0;
}

static const Symbol *symbol_of(const Job *j, const char *name)
{
    const int32_t i = dim_find_symbol(j->graph->dims, name);
    return i < 0 ? NULL : &j->graph->dims->symbols.data[i];
}

static void add_size(Job *j, ImportSize size)
{
    vec_push(j->cli->arena, &j->given.sizes, size);
    vec_push(j->cli->arena, &j->pipeline.dims, size);
}

// One token, one for each slot, a token and its drafts, and as many as a run takes.
static BucketSizes buckets_of(const Job *j, const Symbol *t, const Symbol *l)
{
    if (l == NULL && j->slots > 1 && j->slots < t->max)
        return (BucketSizes){.n = 3, .n_symbols = 1, .name = {t->name}, .size = {{1}, {j->slots}, {t->max}}};
    if (l == NULL)
        return (BucketSizes){.n = 2, .n_symbols = 1, .name = {t->name}, .size = {{1}, {t->max}}};
    BucketSizes b = {.n_symbols = 2, .name = {t->name, l->name}};
    const int64_t sizes[][2] = {{1, 1}, {l->max, l->max}, {t->max, l->max}};
    for (uint32_t i = 0; i < 3; i++)
        if ((i != 1 || j->slots == 0) && (b.n == 0 || sizes[i][0] != b.size[b.n - 1][0]))
            memcpy(b.size[b.n++], sizes[i], sizeof sizes[i]);
    return b;
}

void language_open_sizes(Job *j)
{
    rlx_assert(j->graph != NULL);
    const Symbol *t = symbol_of(j, "T"), *l = symbol_of(j, LLM_LOGIT_ROWS);
    if (t == NULL || !takes_tokens(j))
        return;
    if (has_sizes(j)) { // L is no size that users choose
        if (l != NULL && j->drafts != 0)
            add_size(j, (ImportSize){.name = l->name, .is_range = true, .is_open = true});
        return;
    }
    j->pipeline.is_dynamic = true;
    if (t->max == 1)
        return;
    j->buckets = buckets_of(j, t, j->drafts != 0 ? l : NULL);
    for (uint32_t i = 0; i < j->buckets.n_symbols; i++)
        add_size(j, buckets_range(&j->buckets, j->buckets.n - 1, i));
}

// The number of a symbol among those that programs set. False: there is none.
static bool find_size(const Job *j, const char *name, uint32_t *out)
{
    const uint32_t n = open_sizes_count(j);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(j->plan->graph->symbols->symbol[i].name, name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

// Are there just so many sizes and inputs, and logits of one token of each sequence, or with drafts of L?
static bool has_form(const Job *j, uint32_t sizes, uint32_t inputs, const LanguageSizes *s)
{
    const PlanIo *logits = j->plan->outputs.data;
    const int64_t tokens = j->drafts == 0 ? s->n : j->plan->graph->symbols->symbol[s->logit_rows].max;
    sizes += j->drafts != 0; // L
    return open_sizes_count(j) == sizes && j->plan->inputs.len == inputs && j->plan->outputs.len != 0 &&
           strcmp(logits->name, "logits") == 0 && logits->rank == 2 && logits->dim[0] == tokens;
}

// The size L, and the drafts of one sequence for which it has room beside the last tokens of all.
static bool find_drafts(const Job *j, LanguageSizes *out)
{
    if (j->drafts == 0)
        return true;
    if (!find_size(j, LLM_LOGIT_ROWS, &out->logit_rows))
        return false;
    const int64_t room = j->plan->graph->symbols->symbol[out->logit_rows].max - out->n;
    out->drafts = room < j->drafts ? room : j->drafts;
    return out->drafts >= 0;
}

// 0: there is none.
static uint32_t find_output(const Job *j, const char *name)
{
    uint32_t i = j->plan->outputs.len;
    while (i-- > 1)
        if (strcmp(j->plan->outputs.data[i].name, name) == 0)
            return i;
    return 0;
}

static uint32_t find_plain_set(const Job *j)
{
    uint32_t i = j->plan->sets.len;
    while (i > 0 && strcmp(j->plan->sets.data[i - 1].name, LLM_PLAIN_SET) != 0)
        i--;
    return i;
}

static bool is_cache(const PlanIo *state)
{
    return strstr(state->name, "_cache") != NULL;
}

// Are all of its states of a size that does not depend on the tokens?
static bool has_fixed_states(const Job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->plan->states.len; i++)
        n += !is_cache(&j->plan->states.data[i]);
    return n != 0 && n == j->plan->states.len;
}

bool language_has_rows(const Job *j)
{
    for (uint32_t i = 0; i < j->plan->states.len; i++)
        if (!is_cache(&j->plan->states.data[i]))
            return false;
    return true;
}

bool language_sizes(const Job *j, LanguageSizes *out)
{
    rlx_assert(j->plan != NULL);
    const GraphSymbols *s = j->plan->graph->symbols;
    *out = (LanguageSizes){.n = 1};
    if (!find_size(j, "T", &out->rows) || !find_size(j, "P", &out->past) || !find_drafts(j, out) ||
        !has_form(j, 2, 1, out))
        return false;
    out->most_rows = s->symbol[out->rows].max;
    out->best = find_output(j, LLM_BEST);
    out->plain = find_plain_set(j);
    out->top = out->plain != 0 ? find_output(j, LLM_TOP) : 0;
    out->context = s->symbol[out->past].max + 1;
    out->cache_rows = has_fixed_states(j) ? 0 : out->context - 1 + out->most_rows;
    return true;
}

bool language_embeds(const Job *j, LanguageSizes *out)
{
    const Plan *p = j->plan;
    *out = (LanguageSizes){.n = 1};
    if (language_is(j) || !takes_tokens(j) || !find_size(j, "T", &out->rows) || open_sizes_count(j) != 1 ||
        p->inputs.len != 1 || p->outputs.len == 0 || strcmp(p->outputs.data[0].name, "embedding") != 0)
        return false;
    out->most_rows = out->context = p->graph->symbols->symbol[out->rows].max;
    return true;
}

bool language_slots(const Job *j, LanguageSizes *out)
{
    rlx_assert(j->plan != NULL);
    *out = (LanguageSizes){.n = j->slots};
    if (j->slots == 0 || !find_size(j, "T", &out->rows) || !find_drafts(j, out) ||
        !has_form(j, 1, LLM_SLOTS_INPUTS, out))
        return false;
    out->most_rows = j->plan->graph->symbols->symbol[out->rows].max;
    out->best = find_output(j, LLM_BEST);
    out->context = out->cache_rows = j->plan->inputs.data[LLM_SLOTS_PAGES].dim[1] * LLM_PAGE;
    return true;
}
