// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Sessions that are saved, restored and forked: their tokens, keys and values, logits, and the text that is
// held back. Of the states only the rows of tokens are copied.
#ifndef RLX_SESSION_SAVE_H
#define RLX_SESSION_SAVE_H

#include "../rlx_states.h"
#include "rlx_session_next.h"

// At the start of a saved session. Behind it: tokens, held text, logits, rows, each at a multiple of 8.
typedef struct rlx_session_head {
    uint64_t magic, fingerprint, checksum, bytes; // checksum: of all bytes, where it is 0 itself
    int64_t n_tokens, n_run, n_sure;
    uint64_t row_bytes, n_held, has_logits;
    uint8_t partial[4]; // bytes of a character
    uint32_t n_partial;
} rlx_session_head;

#define RLX_SESSION_MAGIC 0x3153534553584c52u // "RLXSESS1"

// --- rows of the states --------------------------------------------------------------------------

// States are [heads, rows, elements], or [heads * rows, elements], or of fixed size.
static inline int64_t rlx_session_all_rows(const rlx_session *s, const rlx_tensor *t)
{
    if (s->kind->cache_rows == 0)
        return 1;
    return t->rank == 3 ? t->shape[0] * t->shape[1] : t->shape[0];
}

// Bytes of a row of one head.
static inline size_t rlx_session_row(const rlx_session *s, const rlx_tensor *t)
{
    return t->bytes / (size_t)rlx_session_all_rows(s, t);
}

static inline int64_t rlx_session_heads(const rlx_session *s, const rlx_tensor *t)
{
    return s->kind->cache_rows == 0 ? 1 : rlx_session_all_rows(s, t) / s->kind->cache_rows;
}

static inline size_t rlx_session_row_bytes(const rlx_session *s)
{
    const rlx_model *m = s->kind->model;
    size_t sum = 0;
    for (uint32_t i = 0; i < m->n_states; i++)
        sum += rlx_session_row(s, &m->states[i]) * (size_t)rlx_session_heads(s, &m->states[i]);
    return sum;
}

// Rows that lie one after the other in memory; is_in: they go from there into the states.
typedef struct rlx_session_rows {
    char *memory;
    int64_t n;
    int is_in;
} rlx_session_rows;

// Copies the first rows of a head that begins at row `first`.
static inline rlx_status rlx_session_copy_head(rlx_session *s, const rlx_tensor *t, int64_t first,
                                               rlx_session_rows rows)
{
    const size_t row = rlx_session_row(s, t);
    rlx_status status = RLX_OK;
    for (int64_t i = 0, n = 0; i < rows.n && status == RLX_OK; i += n) {
        const size_t at = (size_t)(first + s->kind->form->place(s, i, &n)) * row;
        char *memory = rows.memory + (size_t)i * row;
        n = n < rows.n - i ? n : rows.n - i;
        status = rows.is_in ? rlx_write_state_range(s->runs_on, t->name, at, memory, (size_t)n * row)
                            : rlx_read_state_range(s->runs_on, t->name, at, memory, (size_t)n * row);
    }
    return status;
}

// The same with all heads of all states, one after the other.
static inline rlx_status rlx_session_copy_rows(rlx_session *s, rlx_session_rows rows)
{
    const rlx_model *m = s->kind->model;
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < m->n_states && status == RLX_OK; i++) {
        const rlx_tensor *t = &m->states[i];
        for (int64_t h = 0; h < rlx_session_heads(s, t) && status == RLX_OK; h++) {
            status = rlx_session_copy_head(s, t, h * s->kind->cache_rows, rows);
            rows.memory += (size_t)rows.n * rlx_session_row(s, t);
        }
    }
    return status;
}

// --- the file ------------------------------------------------------------------------------------

static inline uint64_t rlx_session_pad(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

// Where the parts of a saved session begin, and its end.
typedef struct rlx_session_parts {
    uint64_t tokens, held, logits, rows, end;
} rlx_session_parts;

static inline rlx_session_parts rlx_session_layout(const rlx_session *s, const rlx_session_head *h)
{
    rlx_session_parts p;
    p.tokens = sizeof *h;
    p.held = p.tokens + rlx_session_pad((uint64_t)h->n_tokens * sizeof(int32_t));
    p.logits = p.held + rlx_session_pad(h->n_held);
    p.rows = p.logits + (h->has_logits != 0 ? rlx_session_pad(s->kind->sizes.logits) : 0);
    p.end = p.rows + rlx_session_pad((uint64_t)rlx_session_rows_of(s, h->n_run) * h->row_bytes);
    return p;
}

// Of n bytes, a multiple of 8.
static inline uint64_t rlx_session_sum(uint64_t sum, const char *data, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t word;
        memcpy(&word, data + i, 8);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    return sum;
}

static inline uint64_t rlx_session_sum_of(const rlx_session_head *h, const char *memory)
{
    rlx_session_head plain = *h;
    plain.checksum = 0;
    return rlx_session_sum(rlx_session_sum(1, (const char *)&plain, sizeof plain), memory + sizeof plain,
                           h->bytes - sizeof plain);
}

#ifndef RLX_SEAL_BYTES // rlx_types.h leaves it out where weights are part of the program
#define RLX_SEAL_BYTES 8u
#endif

// Weights that the program has loaded are those of any file, with their checksum behind the seal.
static inline uint64_t rlx_session_fingerprint(const rlx_session *s)
{
    const rlx_model *m = s->kind->model;
    uint64_t sum = 0;
    if (m->weights_seal > RLX_SEAL_BYTES)
        memcpy(&sum, s->ctx.weights + (m->weight_bytes - m->weights_seal + RLX_SEAL_BYTES), sizeof sum);
    return s->kind->fingerprint ^ sum;
}

static inline rlx_session_head rlx_session_head_of(const rlx_session *s, const rlx_stop *held)
{
    rlx_session_head h;
    memset(&h, 0, sizeof h);
    h.magic = RLX_SESSION_MAGIC;
    h.fingerprint = rlx_session_fingerprint(s);
    h.n_tokens = s->n_tokens;
    h.n_run = s->n_run;
    h.n_sure = s->n_sure;
    h.row_bytes = rlx_session_row_bytes(s);
    h.n_held = held == NULL ? 0 : held->matched;
    h.has_logits = (uint64_t)s->has_logits;
    memcpy(h.partial, s->stream.held, s->stream.n);
    h.n_partial = s->stream.n;
    h.bytes = rlx_session_layout(s, &h).end;
    return h;
}

static inline int64_t rlx_session_save(rlx_session *s, void *memory, size_t room)
{
    char *to = (char *)memory;
    if (!rlx_session_is_open(s) || (memory == NULL && room != 0))
        return RLX_SESSION_NULL;
    const rlx_stop *held = s->stops.is_stopped ? NULL : rlx_stops_held(&s->stops);
    rlx_session_head h = rlx_session_head_of(s, held);
    const rlx_session_parts p = rlx_session_layout(s, &h);
    if (room < h.bytes)
        return (int64_t)h.bytes;
    if (s->has_logits && rlx_session_fetch(s) < 0)
        return RLX_SESSION_MODEL;
    memset(to, 0, (size_t)p.rows);
    if (p.end != p.rows)
        memset(to + p.end - 8, 0, 8);
    if (s->n_tokens != 0)
        memcpy(to + p.tokens, s->tokens, (size_t)s->n_tokens * sizeof *s->tokens);
    if (held != NULL)
        memcpy(to + p.held, held->text, held->matched);
    if (s->has_logits)
        memcpy(to + p.logits, s->logits, s->kind->sizes.logits);
    const rlx_session_rows rows = {to + p.rows, rlx_session_rows_of(s, s->n_run), 0};
    const rlx_status status = rlx_session_copy_rows(s, rows);
    if (status != RLX_OK)
        return rlx_session_fail(s, status);
    h.checksum = rlx_session_sum_of(&h, to);
    memcpy(to, &h, sizeof h);
    return (int64_t)h.bytes;
}

// Can a session be what was saved? The numbers are checked before anything depends on them.
static inline int rlx_session_check_saved(const rlx_session *s, const rlx_session_head *h, const char *memory)
{
    const int64_t context = s->kind->context;
    if (h->fingerprint != rlx_session_fingerprint(s) || h->row_bytes != rlx_session_row_bytes(s))
        return RLX_SESSION_OTHER;
    if (h->n_tokens < 0 || h->n_run < 0 || h->n_run > h->n_tokens || h->n_sure < 0 ||
        h->n_sure > h->n_tokens || h->n_held >= RLX_SESSION_STOP_BYTES || h->has_logits > 1 ||
        h->n_partial >= sizeof h->partial || (h->has_logits != 0 && h->n_run != h->n_tokens))
        return RLX_SESSION_SAVED;
    if (h->n_tokens > context)
        return RLX_SESSION_FULL;
    const rlx_session_parts p = rlx_session_layout(s, h);
    if (p.end != h->bytes || rlx_session_sum_of(h, memory) != h->checksum)
        return RLX_SESSION_SAVED;
    for (int64_t i = 0; i < h->n_tokens; i++) {
        int32_t token;
        memcpy(&token, memory + p.tokens + (size_t)i * sizeof token, sizeof token);
        if (token < 0 || (uint32_t)token >= s->kind->vocab->n_tokens)
            return RLX_SESSION_SAVED;
    }
    return 0;
}

static inline int rlx_session_restore(rlx_session *s, const void *memory, size_t bytes)
{
    const char *from = (const char *)memory;
    rlx_session_head h;
    if (!rlx_session_is_open(s) || memory == NULL)
        return RLX_SESSION_NULL;
    if (bytes < sizeof h)
        return RLX_SESSION_SAVED;
    memcpy(&h, from, sizeof h);
    if (h.magic != RLX_SESSION_MAGIC || h.bytes != bytes)
        return RLX_SESSION_SAVED;
    const int checked = rlx_session_check_saved(s, &h, from);
    if (checked < 0)
        return checked;
    const rlx_session_parts p = rlx_session_layout(s, &h);
    const int64_t n_run = s->n_run;
    s->n_run = 0; // its own rows are overwritten
    const int reserved = rlx_session_reserve(s, h.n_run);
    s->n_run = reserved < 0 ? n_run : 0;
    if (reserved < 0)
        return reserved;
    s->n_tokens = s->has_logits = 0;
    s->n_away = 0;
    s->logits = s->first_logits;
    s->chosen = -1;
    rlx_session_drop_drafts(s);
    rlx_session_clear_text(s);
    const rlx_session_rows rows = {(char *)(uintptr_t)(from + p.rows), rlx_session_rows_of(s, h.n_run), 1};
    const rlx_status status = rlx_session_copy_rows(s, rows);
    if (status != RLX_OK)
        return rlx_session_fail(s, status);
    if (h.n_tokens != 0)
        memcpy(rlx_session_free_tokens(s), from + p.tokens, (size_t)h.n_tokens * sizeof *s->tokens);
    s->n_tokens = h.n_tokens;
    s->n_run = h.n_run;
    rlx_session_trim(s);
    s->has_logits = (int)h.has_logits;
    s->best = -1;
    s->has_top = 0;
    if (h.has_logits != 0)
        memcpy(s->first_logits, from + p.logits, s->kind->sizes.logits);
    rlx_session_write(s, from + p.held, (size_t)h.n_held);
    memcpy(s->stream.held, h.partial, sizeof h.partial);
    s->stream.n = h.n_partial;
    s->n_sure = h.n_sure;
    return 0;
}

static inline int rlx_session_fork(rlx_session *to, rlx_session *from)
{
    if (!rlx_session_is_open(to) || !rlx_session_is_open(from))
        return RLX_SESSION_NULL;
    if (to->kind != from->kind || to->slots != from->slots)
        return RLX_SESSION_OTHER;
    if (to == from)
        return 0;
    if (from->has_logits && rlx_session_fetch(from) < 0)
        return RLX_SESSION_MODEL;
    (void)rlx_session_rewind(to, 0);
    const rlx_status status = to->kind->form->copy(to, from, rlx_session_rows_of(from, from->n_run));
    if (status != RLX_OK)
        return rlx_session_fail(to, status);
    if (from->n_tokens != 0)
        memcpy(rlx_session_free_tokens(to), from->tokens, (size_t)from->n_tokens * sizeof *from->tokens);
    to->n_tokens = from->n_tokens;
    to->n_run = from->n_run;
    to->n_sure = from->n_sure;
    to->has_logits = from->has_logits;
    to->logits = to->first_logits;
    to->best = from->logits == from->first_logits ? from->best : -1;
    to->n_away = 0;
    to->has_top = 0;
    if (from->has_logits)
        memcpy(to->logits, from->logits, from->kind->sizes.logits);
    to->chosen = -1;
    to->stream = from->stream;
    to->stops.n = from->stops.n;
    to->stops.is_stopped = from->stops.is_stopped;
    memcpy(to->stop, from->stop, sizeof to->stop);
    memcpy(to->stop_text, from->stop_text, sizeof to->stop_text);
    memcpy(to->stop_back, from->stop_back, sizeof to->stop_back);
    for (size_t i = 0; i < to->stops.n; i++) {
        to->stop[i].text = to->stop_text + (from->stop[i].text - from->stop_text);
        to->stop[i].back = to->stop_back + (from->stop[i].back - from->stop_back);
    }
    return 0;
}

// --- shift ---------------------------------------------------------------------------------------

// Takes n tokens out behind the first `keep`. What stands behind them is run again, at its new place, before
// the next token is chosen.
static inline int rlx_session_shift(rlx_session *s, int64_t keep, int64_t n)
{
    if (!rlx_session_is_open(s))
        return RLX_SESSION_NULL;
    if (keep < 0 || n < 0 || keep > s->n_tokens || n > s->n_tokens - keep)
        return RLX_SESSION_RANGE;
    int32_t *tokens = rlx_session_free_tokens(s) - s->n_tokens;
    const int64_t left = s->n_tokens - keep - n;
    if (n == 0)
        return 0;
    rlx_session_drop_drafts(s);
    memmove(tokens + keep, tokens + keep + n, (size_t)left * sizeof *tokens);
    s->n_tokens -= n;
    rlx_session_go_back(s, keep);
    rlx_session_trim(s);
    s->n_sure = s->n_sure <= keep ? s->n_sure : s->n_sure <= keep + n ? keep : s->n_sure - n;
    s->has_logits = 0;
    return 0;
}

#endif
