// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files. Small files are copied, because a mapping costs a page and a table entry;
// mappings are never undone, because graphs point into them until the program ends.
#include "compiler/system/rawfile.h"
#include "base/portable.h"
#include "base/map.h"
#include "base/str.h"
#include "compiler/system/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char not_regular[] = "it is not a regular file";
enum { COPIED_UP_TO = 64 * 1024, MAX_MAPPINGS = 64, MAX_STALE = 100 };

// What is mapped, for rawfile_release_pages and rawfile_find; files beyond the limit just keep their pages.
typedef struct Mapping {
    void *at;
    size_t len;
    const char *path;
} Mapping;
static Mapping mappings[MAX_MAPPINGS];
static uint32_t n_mappings;

// Paths that were opened. They have an arena of their own, which lives as long as the program: callers open
// files with arenas that they drop.
static Arena read_arena;
static Map read_paths;
static VEC(ReadFile) files_read;
static Map files_open; // by FileKey: a RawFile

// What makes a file the one that was read before, whatever it is called.
typedef struct FileKey {
    uint64_t device, inode;
    int64_t size, seconds, nanoseconds;
} FileKey;

static const char *file_id(Arena *a, const struct stat *st)
{
    return arena_printf(a, "%llu:%llu:%lld:%lld.%09ld", (unsigned long long)st->st_dev,
                        (unsigned long long)st->st_ino, (long long)st->st_size,
                        (long long)STAT_MTIME(st).tv_sec, (long)STAT_MTIME(st).tv_nsec);
}

const char *rawfile_id(Arena *a, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? file_id(a, &st) : NULL;
}

static void note_read(const char *path, const struct stat *st)
{
    if (map_put_str(&read_arena, &read_paths, path, 1))
        vec_push(&read_arena, &files_read,
                 ((ReadFile){arena_strdup(&read_arena, path), file_id(&read_arena, st)}));
}

const ReadFile *rawfile_list_read(uint32_t *n)
{
    *n = files_read.len;
    return files_read.data;
}

void rawfile_release_pages(void)
{
    for (uint32_t i = 0; i < n_mappings; i++)
        madvise(mappings[i].at, mappings[i].len, MADV_DONTNEED);
}

bool rawfile_find(const void *p, size_t n, RawPlace *out)
{
    for (uint32_t i = 0; i < n_mappings; i++) {
        const uintptr_t at = (uintptr_t)p - (uintptr_t)mappings[i].at;
        if (n > mappings[i].len || at > mappings[i].len - n)
            continue;
        *out = (RawPlace){mappings[i].path, mappings[i].at, mappings[i].len};
        return true;
    }
    return false;
}

static bool cannot(Diag *d, Span where, DiagCode code, const char *path, const char *why)
{
    return diag_error(d, where, code, "cannot %s '%s': %s", code == E0001 ? "read" : "write", path, why);
}

// Fills exactly n bytes; a file that shrinks meanwhile is an error.
static bool read_all(int fd, char *data, size_t n)
{
    while (n) {
        ssize_t got = read(fd, data, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        data += got;
        n -= (size_t)got;
    }
    return true;
}

static bool load(Arena *a, int fd, const char *path, size_t len, RawFile *out)
{
    out->len = len;
    if (len <= COPIED_UP_TO) {
        char *copy = arena_alloc(a, len);
        out->data = copy;
        return read_all(fd, copy, len);
    }
    void *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    out->data = map;
    if (map != MAP_FAILED && n_mappings < MAX_MAPPINGS)
        mappings[n_mappings++] = (Mapping){map, len, arena_strdup(&read_arena, path)};
    return map != MAP_FAILED;
}

// A file that many tensors name, perhaps by several names, is in memory once.
static bool load_once(int fd, const char *path, const struct stat *st, RawFile *out)
{
    const FileKey key = {(uint64_t)st->st_dev, (uint64_t)st->st_ino, st->st_size, STAT_MTIME(st).tv_sec,
                         STAT_MTIME(st).tv_nsec};
    uint64_t known = 0;
    if (map_get(&files_open, &key, sizeof key, &known)) {
        *out = *(const RawFile *)(uintptr_t)known;
        return true;
    }
    if (!load(&read_arena, fd, path, (size_t)st->st_size, out))
        return false;
    RawFile *kept = ARENA_NEW(&read_arena, RawFile);
    *kept = *out;
    map_put(&read_arena, &files_open, &key, sizeof key, (uint64_t)(uintptr_t)kept);
    return true;
}

// What is wrong, NULL: nothing. Without an arena, the file is one that stays open.
static const char *open_regular(Arena *a, const char *path, RawFile *out, struct stat *st)
{
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *wrong = NULL;
    if (fd < 0)
        return strerror(errno);
    errno = 0;
    if (fstat(fd, st) != 0)
        wrong = strerror(errno);
    else if (!S_ISREG(st->st_mode))
        wrong = S_ISDIR(st->st_mode) ? "it is a folder" : not_regular;
    else if (a != NULL ? !load(a, fd, path, (size_t)st->st_size, out) : !load_once(fd, path, st, out))
        wrong = errno ? strerror(errno) : "it became shorter";
    close(fd);
    return wrong;
}

bool rawfile_peek(Arena *a, const char *path, RawFile *out)
{
    struct stat st;
    return open_regular(a, path, out, &st) == NULL;
}

static bool open_listed(Arena *a, Diag *d, Span where, const char *path, RawFile *out)
{
    struct stat st;
    const char *wrong = open_regular(a, path, out, &st);
    if (wrong)
        return cannot(d, where, E0001, path, wrong);
    note_read(path, &st);
    return true;
}

bool rawfile_open(Arena *a, Diag *d, Span where, const char *path, RawFile *out)
{
    return open_listed(a, d, where, path, out);
}

bool rawfile_open_once(Diag *d, Span where, const char *path, RawFile *out)
{
    return open_listed(NULL, d, where, path, out);
}

const char *rawfile_folder(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return "";
    return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

static bool has_parent_part(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0))
            return true;
    }
    return false;
}

static bool is_below(const char *path, const char *folder, size_t n)
{
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n > 0 && folder[n - 1] == '/'));
}

// The folder of a download that keeps its files by content: ROOT/snapshots/REVISION/... links to ROOT/blobs.
// The length of ROOT/blobs, written to `out`; 0: it is none.
static size_t find_blobs(const char *folder, char *out, size_t size)
{
    static const char mark[] = "/snapshots/";
    const char *last = NULL;
    for (const char *at = strstr(folder, mark); at != NULL; at = strstr(at + 1, mark))
        last = at;
    if (last == NULL)
        return 0;
    const int n = snprintf(out, size, "%.*s/blobs", (int)(last - folder), folder);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

// With all links followed. A path that leads nowhere is inside: opening it says what is wrong.
static bool leads_inside(const char *dir, const char *path)
{
    char folder[PATH_MAX], file[PATH_MAX], blobs[PATH_MAX];
    if (realpath(*dir ? dir : ".", folder) == NULL || realpath(path, file) == NULL)
        return true;
    const size_t n = find_blobs(folder, blobs, sizeof blobs);
    return is_below(file, folder, strlen(folder)) || (n > 0 && is_below(file, blobs, n));
}

const char *rawfile_resolve(Arena *a, const char *dir, const char *name)
{
    if (!*name)
        return NULL;
    if (*name == '/')
        return arena_strdup(a, name);
    if (has_parent_part(name))
        return NULL;
    const char *path = !*dir ? arena_strdup(a, name)
                             : arena_printf(a, str_ends_with(dir, "/") ? "%s%s" : "%s/%s", dir, name);
    return leads_inside(dir, path) ? path : NULL;
}

// Why no file may take the place of what is there. NULL: it may, which is also true of a link to a file or
// folder, but not of one to a device or to what a process has open (/dev/stdout).
static const char *why_not_replaced(const char *path)
{
    static const char open_files[] = "/proc/";
    char to[sizeof open_files] = "";
    struct stat st;
    if (lstat(path, &st) != 0)
        return NULL;
    if (S_ISDIR(st.st_mode))
        return strerror(EISDIR);
    const bool is_link = S_ISLNK(st.st_mode);
    if (is_link && readlink(path, to, sizeof to - 1) > 0 && strcmp(to, open_files) == 0)
        return not_regular;
    if (is_link && (stat(path, &st) != 0 || S_ISDIR(st.st_mode)))
        return NULL;
    return S_ISREG(st.st_mode) ? NULL : not_regular;
}

bool rawfile_create(RawWriter *w, Diag *d, const char *path)
{
    const char *why = why_not_replaced(path);
    *w = (RawWriter){.diag = d, .path = path, .fd = -1};
    if (why != NULL)
        return cannot(d, (Span){0}, E0002, path, why);
    interrupt_hold();
    // A name is taken where a process of the same number was killed: in containers most have small ones.
    for (int i = 0; i < MAX_STALE && w->fd < 0 && (i == 0 || errno == EEXIST); i++) {
        w->temporary = arena_printf(d->arena, "%s.%ld.%d.tmp", path, (long)getpid(), i);
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (w->fd >= 0)
        return true;
    cannot(d, (Span){0}, E0002, path, strerror(errno));
    interrupt_release();
    return false;
}

bool rawfile_append(void *writer, const void *bytes, size_t n)
{
    RawWriter *w = writer;
    const char *data = bytes;
    errno = 0;
    rlx_assert(w->fd >= 0 && w->error == 0); // no more is written once it has failed
    while (n) {
        if (interrupt_came()) {
            w->error = EINTR;
            return false;
        }
        ssize_t done = write(w->fd, data, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            w->error = errno ? errno : ENOSPC;
            return false;
        }
        data += done;
        n -= (size_t)done;
    }
    return true;
}

bool rawfile_append_parts(RawWriter *w, const FilePart *parts, uint32_t n_parts)
{
    bool ok = true;
    for (uint32_t i = 0; i < n_parts && ok; i++)
        ok = rawfile_append(w, parts[i].data, parts[i].len);
    return ok;
}

bool rawfile_commit(RawWriter *w, bool is_complete)
{
    rlx_assert(w->fd >= 0 && w->temporary != NULL);
    if (close(w->fd) != 0 && w->error == 0)
        w->error = errno;
    if (is_complete && w->error == 0 && rename(w->temporary, w->path) != 0)
        w->error = errno;
    const bool is_there = is_complete && w->error == 0;
    if (!is_there)
        unlink(w->temporary);
    interrupt_release();
    if (is_there)
        return true;
    return w->error != 0 ? cannot(w->diag, (Span){0}, E0002, w->path, strerror(w->error)) : false;
}

bool rawfile_write(Diag *d, const char *path, const FilePart *parts, uint32_t n_parts)
{
    rlx_assert(parts != NULL || n_parts == 0);
    RawWriter w;
    return rawfile_create(&w, d, path) && rawfile_commit(&w, rawfile_append_parts(&w, parts, n_parts));
}

bool rawfile_write_text(Diag *d, const char *path, const char *text)
{
    const FilePart part = {text, strlen(text)};
    return rawfile_write(d, path, &part, 1);
}
