// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Loads the weights of a model: finds the tensors in the files, and makes each part of the weights, or the
// share of it that one of several threads makes. The numbers of the files are checked before any of them is
// used, by each call, which relies on nothing in the memory of the weights but what lies within these bounds.
#ifndef RLX_LOAD_RUN_H
#define RLX_LOAD_RUN_H

#include "rlx_load_folder.h"
#include "rlx_load_pack.h"
#include "rlx_load_panels.h"

// What becomes bytes [to, to + bytes) of the weights.
enum { RLX_LOAD_NONE = 0xffff };
typedef struct rlx_load_part {
    uint64_t to, bytes;
    uint64_t from;           // of what it is made of: its first byte
    uint64_t columns, blocks;
    uint32_t tensor, format; // RLX_LOAD_NONE: bytes of the code; format: by kind
    uint32_t kind;
} rlx_load_part;

// Bytes as they are; blocks by a format; floats by a layout; 16 bits as f32.
enum { RLX_LOAD_BYTES, RLX_LOAD_BLOCKS, RLX_LOAD_PANELS, RLX_LOAD_F16, RLX_LOAD_BF16 };

typedef struct rlx_load_plan {
    const rlx_model *model;
    const char *arch;              // NULL: the files are those of a folder
    uint64_t settings, vocabulary; // sums, as in rlx_load_head; of a folder that of config.json
    uint32_t n_tensors, n_parts;
    const rlx_load_tensor *tensors; // by name
    const rlx_load_part *parts;     // by `to`
    const rlx_load_format *formats;
    const rlx_load_layout *layouts;
    const void *own;                // bytes of the code
} rlx_load_plan;

typedef struct rlx_load_files {
    const rlx_load_bytes *file;
    size_t n;
} rlx_load_files;

typedef struct rlx_load_share {
    uint32_t i, n;
} rlx_load_share;

// --- behind the weights --------------------------------------------------------------------------

// The seal, their checksum, the places of tensors, and which shares are done, for as long as they are loaded.
typedef struct rlx_load_block {
    unsigned char *weights, *seal, *done;
    uint64_t *place; // file << RLX_LOAD_PLACE_BITS | offset
    uint64_t bytes;  // of the weights
} rlx_load_block;
enum { RLX_LOAD_PLACE_BITS = 48, RLX_LOAD_FILES = 1 << 15 };

// In the place of the checksum while weights are loaded, so that nothing goes on in memory where it was not
// begun.
static inline uint64_t rlx_load_mark(const rlx_load_plan *p)
{
    return (p->settings ^ p->vocabulary) * 0x9E3779B97F4A7C15u + p->n_parts + 1;
}

static inline int rlx_load_is_begun(const rlx_load_plan *p, const rlx_load_block *b)
{
    const uint64_t mark = rlx_load_mark(p);
    return memcmp(b->seal + RLX_SEAL_BYTES, &mark, sizeof mark) == 0;
}

static inline int rlx_load_block_of(const rlx_load_plan *p, void *memory, size_t n_memory, rlx_load_block *b)
{
    const rlx_model *m = p->model;
    if (memory == NULL)
        return RLX_LOAD_NULL;
    if (n_memory != m->weight_bytes || (uintptr_t)memory % RLX_ALIGNMENT != 0)
        return RLX_LOAD_MEMORY;
    b->bytes = m->weight_bytes - m->weights_seal;
    b->weights = (unsigned char *)memory;
    b->seal = b->weights + b->bytes;
    b->place = (uint64_t *)(void *)(b->seal + 2 * RLX_SEAL_BYTES);
    b->done = (unsigned char *)(b->place + p->n_tensors);
    return 0;
}

static inline int rlx_load_check_files(rlx_load_files files)
{
    size_t i;
    if (files.file == NULL)
        return RLX_LOAD_NULL;
    for (i = 0; i < files.n; i++)
        if (files.file[i].data == NULL)
            return RLX_LOAD_NULL;
    return files.n >= 1 && files.n <= RLX_LOAD_FILES ? 0 : RLX_LOAD_DAMAGED;
}

// Where a tensor is; NULL: its place is none.
static inline const unsigned char *rlx_load_tensor_at(const rlx_load_tensor *t, uint64_t place,
                                                      rlx_load_files files)
{
    const uint64_t f = place >> RLX_LOAD_PLACE_BITS, at = place & (((uint64_t)1 << RLX_LOAD_PLACE_BITS) - 1);
    if (f >= files.n || at > files.file[f].n || t->bytes > files.file[f].n - at)
        return NULL;
    return (const unsigned char *)files.file[f].data + at;
}

// --- what the files have -------------------------------------------------------------------------

// The tensors of one file. 0, or a status.
static inline int rlx_load_places(const rlx_load_plan *p, rlx_load_reader *r, const rlx_load_head *h,
                                  size_t file, uint64_t *place)
{
    const size_t begin = r->at;
    uint64_t i, data, offset = 0;
    uint32_t t = 0;
    int pass;
    for (pass = 0, data = 0; pass < 2; pass++) { // their data begins behind all of them
        r->at = begin;
        for (i = 0; i < h->n_tensors && !r->failed; i++) {
            t = rlx_load_find(p->tensors, p->n_tensors, rlx_load_string(r));
            if (r->failed || t == p->n_tensors || (pass == 1 && place[t] != UINT64_MAX) ||
                !rlx_load_is_like(r, &p->tensors[t], &offset))
                return r->failed ? RLX_LOAD_DAMAGED : RLX_LOAD_TENSORS;
            if (r->failed || offset % h->alignment != 0 ||
                (pass == 1 && (offset > r->n - data || p->tensors[t].bytes > r->n - data - offset)))
                return RLX_LOAD_DAMAGED;
            if (pass == 1)
                place[t] = (uint64_t)file << RLX_LOAD_PLACE_BITS | (data + offset);
        }
        data = (r->at + (uint64_t)h->alignment - 1) / h->alignment * h->alignment;
        if (r->failed || data > r->n || (uint64_t)r->n >> RLX_LOAD_PLACE_BITS != 0)
            return RLX_LOAD_DAMAGED;
    }
    return 0;
}

static inline int rlx_load_find_gguf(const rlx_load_plan *p, rlx_load_files files, uint64_t *place)
{
    uint64_t settings = 0, vocabulary = 0;
    size_t f;
    int status = 0, pass;
    for (pass = 0; pass < 2; pass++) { // what a model is comes first
        for (f = 0; f < files.n && status == 0; f++) {
            rlx_load_reader r = {(const unsigned char *)files.file[f].data, files.file[f].n, 0, 0};
            rlx_load_head h;
            if (!rlx_load_head_of(&r, p->arch, &h))
                return RLX_LOAD_FORMAT;
            if (r.failed)
                return RLX_LOAD_DAMAGED;
            settings += h.settings;
            vocabulary += h.vocabulary;
            status = pass == 1 ? rlx_load_places(p, &r, &h, f, place) : 0;
        }
        if (pass == 0 && (settings != p->settings || vocabulary != p->vocabulary))
            return settings != p->settings ? RLX_LOAD_SETTINGS : RLX_LOAD_VOCABULARY;
    }
    return status;
}

// The tensors of one .safetensors file. 0, or a status.
static inline int rlx_load_shard_places(const rlx_load_plan *p, rlx_load_reader *r, size_t n, size_t file,
                                        uint64_t *place)
{
    const uint64_t data = r->n;
    uint64_t members = 0;
    rlx_load_sign(r, '{');
    while (rlx_load_more(r, '}', &members)) {
        const rlx_load_word name = rlx_load_quoted(r);
        rlx_load_sign(r, ':');
        if (rlx_load_is(name, "__metadata__")) {
            rlx_load_skip_json(r);
        } else {
            const uint32_t t = rlx_load_find(p->tensors, p->n_tensors, name);
            const rlx_load_shard_tensor own = rlx_load_shard_entry(r);
            if (r->failed || own.end > n - data)
                return RLX_LOAD_DAMAGED;
            if (t == p->n_tensors || place[t] != UINT64_MAX || !rlx_load_is_same(&own, &p->tensors[t]))
                return RLX_LOAD_TENSORS;
            place[t] = (uint64_t)file << RLX_LOAD_PLACE_BITS | (data + own.begin);
        }
    }
    return r->failed || (uint64_t)n >> RLX_LOAD_PLACE_BITS != 0 ? RLX_LOAD_DAMAGED : 0;
}

static inline int rlx_load_find_folder(const rlx_load_plan *p, rlx_load_files files, uint64_t *place)
{
    size_t f;
    int status = 0;
    for (f = 0; f < files.n && status == 0; f++) {
        rlx_load_reader r = {(const unsigned char *)files.file[f].data, files.file[f].n, 0, 0};
        if (rlx_load_is_config(r.data, r.n))
            status = rlx_load_config_sum(&r) == p->settings && !r.failed ? 0 : RLX_LOAD_SETTINGS;
        else if (!rlx_load_shard_head(&r))
            status = RLX_LOAD_FORMAT;
        else
            status = r.failed ? RLX_LOAD_DAMAGED : rlx_load_shard_places(p, &r, files.file[f].n, f, place);
    }
    return status;
}

static inline int rlx_load_find_all(const rlx_load_plan *p, rlx_load_files files, uint64_t *place)
{
    uint32_t k;
    int status;
    memset(place, 0xff, p->n_tensors * sizeof *place);
    status = p->arch != NULL ? rlx_load_find_gguf(p, files, place) : rlx_load_find_folder(p, files, place);
    for (k = 0; k < p->n_tensors && status == 0; k++)
        status = place[k] == UINT64_MAX ? RLX_LOAD_TENSORS : 0;
    return status;
}

static inline int rlx_load_check_fixed(const rlx_load_plan *p, rlx_load_files files, const uint64_t *place)
{
    uint32_t k;
    for (k = 0; k < p->n_tensors; k++) {
        const rlx_load_tensor *t = &p->tensors[k];
        if (t->is_fixed && rlx_load_sum(rlx_load_tensor_at(t, place[k], files), t->bytes) != t->sum)
            return RLX_LOAD_VALUES;
    }
    return 0;
}

// --- parts ---------------------------------------------------------------------------------------

// Of n things those of a share.
static inline uint64_t rlx_load_cut(uint64_t n, rlx_load_share s, uint32_t i)
{
    return n / s.n * i + n % s.n * i / s.n;
}

// A number of f16 as f32.
static inline uint32_t rlx_load_half(uint32_t h)
{
    uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ff;
    const uint32_t sign = (h >> 15) << 31;
    if (exponent == 31)
        return sign | 0x7f800000u | fraction << 13;
    if (exponent == 0 && fraction == 0)
        return sign;
    for (exponent += exponent == 0 ? 113 : 112; fraction < 0x400 && (h >> 10 & 31) == 0; exponent--)
        fraction <<= 1;
    return sign | exponent << 23 | (fraction & 0x3ff) << 13;
}

// Elements [first, end) of 16 bits as f32.
static inline void rlx_load_widen(int is_f16, uint64_t first, uint64_t end, const unsigned char *from,
                                  unsigned char *to)
{
    uint64_t i;
    for (i = first; i < end; i++) {
        uint16_t h;
        uint32_t bits;
        memcpy(&h, from + (size_t)i * 2, sizeof h);
        bits = is_f16 ? rlx_load_half(h) : (uint32_t)h << 16;
        memcpy(to + (size_t)i * 4, &bits, sizeof bits);
    }
}

static inline void rlx_load_make(const rlx_load_plan *p, const rlx_load_part *part, const unsigned char *from,
                                 unsigned char *to, rlx_load_share s)
{
    if (part->kind == RLX_LOAD_BYTES) {
        const uint64_t first = rlx_load_cut(part->bytes, s, s.i), end = rlx_load_cut(part->bytes, s, s.i + 1);
        memcpy(to + first, from + first, (size_t)(end - first));
    } else if (part->kind >= RLX_LOAD_F16) {
        const uint64_t n = part->bytes / 4;
        rlx_load_widen(part->kind == RLX_LOAD_F16, rlx_load_cut(n, s, s.i), rlx_load_cut(n, s, s.i + 1), from,
                       to);
    } else if (part->kind == RLX_LOAD_PANELS) {
        const rlx_load_layout *y = &p->layouts[part->format];
        const uint64_t n = rlx_load_count(y) * y->n_matrices;
        rlx_load_panels(y, rlx_load_cut(n, s, s.i), rlx_load_cut(n, s, s.i + 1), from, to);
        if (s.i == 0)
            rlx_load_clear_ends(y, to);
    } else {
        const rlx_load_format *f = &p->formats[part->format];
        const uint64_t n = rlx_load_records(f, part->columns);
        const rlx_load_columns c = {part->columns, part->blocks, rlx_load_cut(n, s, s.i),
                                    rlx_load_cut(n, s, s.i + 1)};
        rlx_load_blocks(f, &c, from, to);
    }
}

// Share s of all parts; that of number 0 has the zeros between them. 0, or a status.
static inline int rlx_load_all(const rlx_load_plan *p, rlx_load_files files, const rlx_load_block *b,
                               rlx_load_share s)
{
    uint64_t at = 0;
    uint32_t i;
    for (i = 0; i < p->n_parts; i++) {
        const rlx_load_part *part = &p->parts[i];
        const uint32_t t = part->tensor;
        const unsigned char *from = t == RLX_LOAD_NONE
                                        ? (const unsigned char *)p->own
                                        : rlx_load_tensor_at(&p->tensors[t], b->place[t], files);
        if (from == NULL)
            return RLX_LOAD_SHARE;
        if (s.i == 0)
            memset(b->weights + at, 0, (size_t)(part->to - at));
        at = part->to + part->bytes;
        rlx_load_make(p, part, from + part->from, b->weights + part->to, s);
    }
    if (s.i == 0)
        memset(b->weights + at, 0, (size_t)(b->bytes - at));
    return 0;
}

// --- calls ---------------------------------------------------------------------------------------

static inline int rlx_load_begin(const rlx_load_plan *p, void *memory, size_t bytes, rlx_load_files files)
{
    rlx_load_block b;
    int status = rlx_load_block_of(p, memory, bytes, &b);
    if (status != 0)
        return status;
    memset(b.seal, 0, p->model->weights_seal);
    status = rlx_load_check_files(files);
    if (status == 0)
        status = rlx_load_find_all(p, files, b.place);
    if (status == 0)
        status = rlx_load_check_fixed(p, files, b.place);
    if (status == 0) {
        const uint64_t mark = rlx_load_mark(p);
        memcpy(b.seal + RLX_SEAL_BYTES, &mark, sizeof mark);
    }
    return status;
}

static inline int rlx_load_share_of(const rlx_load_plan *p, void *memory, size_t bytes, rlx_load_files files,
                                    rlx_load_share s)
{
    rlx_load_block b;
    int status = rlx_load_block_of(p, memory, bytes, &b);
    if (status == 0)
        status = rlx_load_check_files(files);
    if (status == 0 && (s.n < 1 || s.n > RLX_LOAD_SHARES || s.i >= s.n || !rlx_load_is_begun(p, &b)))
        status = RLX_LOAD_SHARE;
    if (status == 0)
        status = rlx_load_all(p, files, &b, s);
    if (status == 0)
        b.done[s.i] = (unsigned char)s.n;
    return status;
}

static inline int rlx_load_end(const rlx_load_plan *p, void *memory, size_t bytes)
{
    rlx_load_block b;
    uint64_t sum;
    uint32_t i;
    const int status = rlx_load_block_of(p, memory, bytes, &b);
    if (status != 0)
        return status;
    if (!rlx_load_is_begun(p, &b) || b.done[0] == 0 || b.done[0] > RLX_LOAD_SHARES)
        return RLX_LOAD_SHARE;
    for (i = 0; i < b.done[0]; i++)
        if (b.done[i] != b.done[0])
            return RLX_LOAD_SHARE;
    sum = rlx_hash_loaded(b.weights, b.bytes);
    memset(b.seal, 0, p->model->weights_seal);
    memcpy(b.seal, &p->model->weights_hash, RLX_SEAL_BYTES);
    memcpy(b.seal + RLX_SEAL_BYTES, &sum, sizeof sum);
    return 0;
}

static inline int rlx_load_model(const rlx_load_plan *p, void *memory, size_t bytes, const void *file,
                                 size_t n)
{
    const rlx_load_bytes one = {file, n};
    const rlx_load_files files = {&one, 1};
    const rlx_load_share all = {0, 1};
    int status = rlx_load_begin(p, memory, bytes, files);
    if (status == 0)
        status = rlx_load_share_of(p, memory, bytes, files, all);
    return status == 0 ? rlx_load_end(p, memory, bytes) : status;
}

#endif
