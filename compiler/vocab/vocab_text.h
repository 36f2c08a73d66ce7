// SPDX-License-Identifier: Apache-2.0
// The headers of runtime-lite/text as lines, made by the build (tools/embed.py). NULL ends each.
#ifndef COMPILER_VOCAB_VOCAB_TEXT_H
#define COMPILER_VOCAB_VOCAB_TEXT_H

extern const char *const vocab_text_public[]; // of NAME.h
extern const char *const vocab_text_common[]; // of NAME.c, and what the vocabulary needs:
extern const char *const vocab_text_normal[];
extern const char *const vocab_text_forms[];
extern const char *const vocab_text_compat[];
extern const char *const vocab_text_signs[];
extern const char *const vocab_text_wordpiece[];
extern const char *const vocab_text_unigram[];
extern const char *const vocab_text_spm[];
extern const char *const vocab_text_bpe[];

#endif
