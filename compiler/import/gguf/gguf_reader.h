// SPDX-License-Identifier: Apache-2.0
// What the files of the GGUF reader share: a place in one part, and reading from there. After something that
// does not fit, which is reported once, everything reads as zeros.
#ifndef COMPILER_IMPORT_GGUF_GGUF_READER_H
#define COMPILER_IMPORT_GGUF_GGUF_READER_H

#include "compiler/import/gguf/gguf.h"

typedef struct GgufReader {
    GgufFile *file;
    const GgufPart *part;
    size_t at;        // the next byte
    const char *what; // what is being read: "entry 'general.name'"
    bool failed;
} GgufReader;

// Reports what is wrong with what is being read, at byte `at`. False.
bool gguf_fail(GgufReader *r, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static inline size_t gguf_left(const GgufReader *r)
{
    return r->part->len - r->at;
}
// The next n bytes; NULL: they are not there, which is reported.
const uint8_t *gguf_take(GgufReader *r, uint64_t n);
uint32_t gguf_take_u32(GgufReader *r);
uint64_t gguf_take_u64(GgufReader *r);
GgufText gguf_take_text(GgufReader *r);
// A text that names something: printable, 1 to `most` bytes. NULL: reported.
const char *gguf_take_name(GgufReader *r, const char *of, size_t most);

// n entries. Those of the first part go into the file; index: by key, of this part.
bool gguf_read_entries(GgufReader *r, uint64_t n, GgufEntry *entries, Map *index);
// n descriptions of tensors, which are added to those of the file; their offsets are in `offset`.
bool gguf_read_tensors(GgufReader *r, uint64_t n, uint64_t *offset);
// Gives the last n tensors their bytes: the data begin at r->at, aligned.
bool gguf_place_tensors(GgufReader *r, uint64_t n, const uint64_t *offset);

// A part that is in memory: header, entries, tensors. Its entries, if it is not the first one, are for
// gguf_read_parts alone.
bool gguf_read_part(GgufFile *f, const GgufPart *part, GgufEntry **entries, Map *index);
// The other parts, where the entries of the first one name some.
bool gguf_read_parts(GgufFile *f);

// The value of a scalar entry.
bool gguf_entry_uint(const GgufEntry *e, uint64_t *out);

#endif
