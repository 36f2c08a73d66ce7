// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: are weights, and the other files that belong to the code of a model, those that it was
// compiled with? Of models with such files.
#ifndef RLX_WEIGHTS_H
#define RLX_WEIGHTS_H

#include "rlx_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the caller brings who brings the weights.
static inline size_t rlx_weight_bytes(const rlx_model *m)
{
#if RLX_HAS_DEVICE
    if (m->fallback != NULL)
        return m->fallback_weights + m->fallback->weight_bytes;
#endif
    return m->weight_bytes;
}

static inline uint64_t rlx_hash_word(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

// The checksum of weights and of .rlxb files (docs/FORMAT.md), seed 0.
static inline uint64_t rlx_hash(const void *bytes, uint64_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t h = rlx_hash_word(0, n), word, i;
    for (i = 0; i < n / 8u; i++) {
        memcpy(&word, p + 8u * i, sizeof word);
        h = rlx_hash_word(h, word);
    }
    if (n % 8u != 0) {
        word = 0;
        memcpy(&word, p + n / 8u * 8u, (size_t)(n % 8u));
        h = rlx_hash_word(h, word);
    }
    h = rlx_hash_word(h, h >> 32);
    return h ^ (h >> 32);
}

// The checksum of weights that the program has made: every fourth word is added to a sum of its own, since a
// word waits for the one before.
static inline uint64_t rlx_hash_loaded(const void *bytes, uint64_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const uint64_t whole = n / 32u * 32u;
    uint64_t h[4] = {0, 1, 2, 3}, sum, word, i;
    int k;
    for (i = 0; i < whole; i += 32u)
        for (k = 0; k < 4; k++) {
            memcpy(&word, p + i + 8u * (unsigned)k, sizeof word);
            h[k] = rlx_hash_word(h[k], word);
        }
    sum = rlx_hash(p + whole, n - whole);
    for (k = 0; k < 4; k++)
        sum = rlx_hash_word(sum, h[k]);
    return sum;
}

static inline int rlx_is_seal(const void *seal, uint64_t hash)
{
    return memcmp(seal, &hash, RLX_SEAL_BYTES) == 0;
}

// Are files in the program, and the weights that the caller brings (NULL: none), of this compile? Compares
// seals only. is_whole: all of their bytes as well.
static inline int rlx_is_own_block(const rlx_model *m, const unsigned char *weights, int is_whole)
{
    const size_t bytes = m->weight_bytes - m->weights_seal;
    uint32_t i;
    for (i = 0; i < m->n_taken; i++) {
        const rlx_taken *t = &m->taken[i];
        if (!rlx_is_seal((const unsigned char *)t->data + t->bytes, t->hash) ||
            (is_whole && rlx_hash(t->data, t->bytes) != t->hash))
            return 0;
    }
    if (weights == NULL || m->file != NULL || bytes == 0)
        return 1;
    if (m->weights_seal > RLX_SEAL_BYTES) // NAME_load has written the checksum after the seal
        return rlx_is_seal(weights + bytes, m->weights_hash) &&
               (!is_whole || rlx_is_seal(weights + bytes + RLX_SEAL_BYTES, rlx_hash_loaded(weights, bytes)));
    return (m->weights_seal == 0 || rlx_is_seal(weights + bytes, m->weights_hash)) &&
           (!is_whole || rlx_hash(weights, bytes) == m->weights_hash);
}

static inline int rlx_is_own(const rlx_model *m, const unsigned char *weights, int is_whole)
{
#if RLX_HAS_DEVICE
    if (m->fallback != NULL &&
        !rlx_is_own_block(m->fallback, weights != NULL ? weights + m->fallback_weights : NULL, is_whole))
        return 0;
#endif
    return rlx_is_own_block(m, weights, is_whole);
}

// Are all weights those that the model was compiled with? NULL and 0 bytes: those in the program, else what
// rlx_init is given. This reads all of them, and the other files that are in the program (initial states,
// code of a GPU); rlx_init compares sizes and seals only, or all of it where the program is compiled with
// RLX_CHECK_WEIGHTS defined. The file of experts: rlx_check_moe_source.
static inline rlx_status rlx_check_weights(const rlx_model *model, const void *weights, size_t weight_bytes)
{
    uint32_t i;
    if (model == NULL || (weights == NULL && (model->weights == NULL || weight_bytes != 0) &&
                          rlx_weight_bytes(model) != 0))
        return RLX_ERR_NULL;
    if (weights != NULL && weight_bytes != rlx_weight_bytes(model))
        return RLX_ERR_WEIGHTS;
    for (i = 0; model->file != NULL && i < model->file->n_parts; i++) {
        const rlx_weight_part *p = &model->file->parts[i];
        if (rlx_hash((const unsigned char *)weights + p->offset, p->bytes) != p->hash)
            return RLX_ERR_WEIGHTS;
    }
    if (weights != NULL)
        return rlx_is_own(model, (const unsigned char *)weights, 1) ? RLX_OK : RLX_ERR_WEIGHTS;
    if (!rlx_is_own_block(model, (const unsigned char *)model->weights, 1))
        return RLX_ERR_WEIGHTS;
    return model->fallback == NULL ||
                   rlx_is_own_block(model->fallback, (const unsigned char *)model->fallback->weights, 1)
               ? RLX_OK
               : RLX_ERR_WEIGHTS;
}

#ifdef __cplusplus
}
#endif

#endif
