// SPDX-License-Identifier: Apache-2.0
// Vocabularies: what a file says about one, checked, as the tables of runtime-lite/text. Separate from the
// readers of the files, which only fill in a VocabSource.
#ifndef COMPILER_VOCAB_VOCAB_H
#define COMPILER_VOCAB_VOCAB_H

#include "base/diag.h"
#include "base/map.h"
#include "base/str.h"
#include "compiler/import/gguf/gguf.h"
#include "runtime-lite/text/rlx_normal.h"

// Bytes that may be any, zeros among them; nothing ends them.
typedef struct VocabText {
    const char *data;
    size_t len;
} VocabText;

enum { VOCAB_MAX_STEPS = 16 };

typedef enum VocabSaid { VOCAB_UNSAID, VOCAB_NO, VOCAB_YES } VocabSaid;

// As GGUF has it under tokenizer.ggml. Ids are -1 where the file names none. Counts of what is absent are 0.
typedef struct VocabSource {
    const char *model; // "llama" (SPM), "gpt2" (BPE), "bert" (WordPiece), "t5" (unigram)
    const char *pre;   // how BPE cuts text; NULL: the file does not say
    const VocabText *tokens, *merges;
    const double *scores;
    const int32_t *types;
    uint64_t n_tokens, n_merges, n_scores, n_types;
    int64_t bos, eos, eot, unknown;
    VocabSaid adds_first, adds_last, adds_space, takes_whole;
    bool is_characters; // BPE: characters are merged, not bytes; U+2581 is a space
    bool cuts_spaces;   // of characters: each space begins a piece
    uint32_t space;     // RLX_SPACE_*, where is_characters or unigram
    uint32_t longest_word; // WordPiece: characters; 0: the file does not say
    uint8_t steps[VOCAB_MAX_STEPS]; // RLX_NORMAL_*: what is made of a text first
    uint32_t n_steps;
    VocabText map; // of RLX_NORMAL_MAP, as SentencePiece writes it
} VocabSource;

enum { VOCAB_MAX_TOKENS = 1 << 22, VOCAB_MAX_MERGES = 1 << 23, VOCAB_MAX_BYTES = 1024 };

// A vocabulary while its tables are made.
typedef struct VocabBuild {
    Arena *arena;
    Diag *diag;
    Span where;
    const VocabSource *source;
    Map ids; // of the tokens by their text in the file
    rlx_vocab *out;
} VocabBuild;

// Makes the tables. False: reported.
bool vocab_build(Arena *a, Diag *d, Span where, const VocabSource *s, rlx_vocab *out);
// The rest of a BPE: how it cuts text, and its pairs (vocab_bpe.c).
bool vocab_build_bpe(VocabBuild *b);
// WordPiece and unigram: their tokens in order, and scores (vocab_words.c).
bool vocab_build_wordpiece(VocabBuild *b);
bool vocab_build_unigram(VocabBuild *b);
// What texts become first (vocab_normal.c). needs_signs: the way to cut asks for them too.
bool vocab_build_normal(VocabBuild *b, bool needs_signs);
// The most bytes that a byte of a text becomes by that.
uint32_t vocab_growth(const rlx_vocab *v);
// The tokens whose type is one of the bits, in the order of their bytes.
uint32_t *vocab_order(const VocabBuild *b, uint32_t types, uint32_t *n);
// The value of a token's text such as <0x0A>; -1: it has no such form.
int vocab_byte_of(VocabText t);
// How a vocabulary makes tokens of a text (vocab_cut.c).
typedef struct VocabWay {
    const char *name; // of the function, for generated code
    rlx_fragment run;
    uint32_t bytes;           // of work memory, for each byte
    const char *const *lines; // the headers that it needs beside those of all
} VocabWay;
const VocabWay *vocab_way(const rlx_vocab *v);
// The name of the function that makes tokens of a text, with what comes first.
const char *vocab_fragment(const rlx_vocab *v);
// Work memory: bytes for each byte of a text and one more, and bytes beside.
uint32_t vocab_work(const rlx_vocab *v, uint32_t *more);
// The bytes that the text of a byte-level token stands for; it itself where it stands for none. In the arena.
VocabText vocab_unmap(Arena *a, VocabText text);
// The row of vocab_pre.def for an expression of tokenizer.json. NULL: none.
const char *vocab_pre_of_regex(const char *text);
// A text of a file for a message: in quotes, cut where it is long.
const char *vocab_show(Arena *a, VocabText text);

// The tables of the model at `path`: a GGUF file, a tokenizer.json or a folder with one. False: reported.
bool vocab_open(Arena *a, Diag *d, const char *path, rlx_vocab *out);
bool vocab_read_folder(Arena *a, Diag *d, const char *folder, rlx_vocab *out);
bool vocab_read_json(Arena *a, Diag *d, uint32_t file, const char *text, size_t len, rlx_vocab *out);

typedef struct VocabTokens {
    const int32_t *token;
    size_t n;
} VocabTokens;

// The tokens of a text, with flags RLX_TOKENS_... (vocab_cut.c). False: it is too long (reported).
bool vocab_cut(Arena *a, Diag *d, const rlx_vocab *v, VocabText text, unsigned flags, VocabTokens *out);

// NAME.h and NAME.c (vocab_emit.c).
void vocab_emit_header(const rlx_vocab *v, const char *name, Str *out);
void vocab_emit_code(const rlx_vocab *v, const char *name, Str *out);
// What NAME.c has behind its first lines: for files that have more than a vocabulary.
void vocab_emit_body(const rlx_vocab *v, const char *name, Str *out);
// The lines of headers, without what includes one from another.
void vocab_emit_lines(Str *out, const char *const *lines);
// A text with the name in place of @name@, in capitals in place of @NAME@.
void vocab_emit_named(Str *out, const char *text, const char *name);

#endif
