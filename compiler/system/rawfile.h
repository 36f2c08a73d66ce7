// SPDX-License-Identifier: Apache-2.0
// Whole files: reading (mapped into memory, or copied when small) and writing (complete or not at all).
// Separate from the formats, which only ever see bytes.
#ifndef COMPILER_SYSTEM_RAWFILE_H
#define COMPILER_SYSTEM_RAWFILE_H

#include "base/diag.h"

typedef struct RawFile {
    const char *data; // 16-byte aligned; read-only; not zero-terminated
    size_t len;
} RawFile;

// Opens a regular file (no pipe, device or folder: those could block or never end). Files of up to 64 KiB are
// copied into the arena, larger ones are mapped until the program ends. False: reported at `where`.
bool rawfile_open(Arena *a, Diag *d, Span where, const char *path, RawFile *out);
// Opens a file that many tensors may name, by whatever paths: it is in memory once, until the program
// ends.
bool rawfile_open_once(Diag *d, Span where, const char *path, RawFile *out);

// Opens a file that is no input: nothing is reported, and rawfile_list_read does not list it.
bool rawfile_peek(Arena *a, const char *path, RawFile *out);

// All that rawfile_open opened so far, each path once, in the order of the first opening: what a depfile
// lists, and what decides about the result. `id` changes when somebody writes or replaces the file.
typedef struct ReadFile {
    const char *path;
    const char *id;
} ReadFile;
const ReadFile *rawfile_list_read(uint32_t *n);
// The id that a path has now, NULL: it cannot be read.
const char *rawfile_id(Arena *a, const char *path);

// The path of a file that a model names: absolute paths as they are, others from `dir` ("" = current folder).
// NULL: the name is empty or leaves the folder, through ".." or a link. Links may lead from
// ROOT/snapshots/... into ROOT/blobs, as downloads are kept.
const char *rawfile_resolve(Arena *a, const char *dir, const char *name);
// The folder part of a path: "a/b" of "a/b/c.json", "" of "c.json".
const char *rawfile_folder(Arena *a, const char *path);

// A file as it was mapped. False: none holds the bytes [p, p + n); small files are not mapped.
typedef struct RawPlace {
    const char *path, *data;
    size_t len;
} RawPlace;
bool rawfile_find(const void *p, size_t n, RawPlace *out);

typedef struct FilePart {
    const void *data;
    size_t len;
} FilePart;

// Gives the memory of all mapped files back to the system; what is read again later comes from the file
// again. Called between the large tensors of a model, so that only what is being worked on is in memory.
void rawfile_release_pages(void);

// A file under a temporary name in the same folder. create and append report nothing twice; commit renames it
// to its path when it is complete, else removes it. False: reported (append: at commit). A path that is a
// folder, pipe or device is reported by create, before other files that belong to it are in place.
typedef struct RawWriter {
    Diag *diag;
    const char *path, *temporary;
    int fd, error;
} RawWriter;
bool rawfile_create(RawWriter *w, Diag *d, const char *path);
bool rawfile_append(void *writer, const void *bytes, size_t n);
bool rawfile_append_parts(RawWriter *w, const FilePart *parts, uint32_t n_parts);
bool rawfile_commit(RawWriter *w, bool is_complete);

// Writes the parts one after the other to a temporary name in the same folder, then renames it to path.
bool rawfile_write(Diag *d, const char *path, const FilePart *parts, uint32_t n_parts);
bool rawfile_write_text(Diag *d, const char *path, const char *text);

#endif
