// SPDX-License-Identifier: Apache-2.0
// See output.h.
#include "compiler/system/output.h"
#include "base/map.h"
#include "base/str.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool output_make_dir(Diag *d, const char *path)
{
    uint32_t n_made;
    return output_make_folders(d, path, &n_made);
}

const char *output_make_parts(Arena *a, const char *path, mode_t mode, uint32_t *n_made)
{
    *n_made = 0;
    char *part = arena_strdup(a, path);
    for (char *c = part + 1; part[0] != '\0'; c++) {
        const char end = *c;
        if (end != '/' && end != '\0')
            continue;
        *c = '\0';
        const bool is_made = mkdir(part, mode) == 0;
        *n_made += is_made;
        if (!is_made && errno != EEXIST)
            return part;
        *c = end;
        if (end == '\0')
            break;
    }
    return NULL;
}

bool output_make_folders(Diag *d, const char *path, uint32_t *n_made)
{
    const char *wrong = output_make_parts(d->arena, path, 0777, n_made);
    if (wrong != NULL)
        return diag_error(d, (Span){0}, E0002, "folder %s: %s", wrong, strerror(errno));
    struct stat st;
    if (path[0] != '\0' && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
        return diag_error(d, (Span){0}, E0002, "%s is not a folder", path);
    return true;
}

void output_remove_folders(Arena *a, const char *path, uint32_t n)
{
    char *part = arena_strdup(a, path);
    for (size_t len = strlen(part); n != 0; n--) {
        while (len > 0 && part[len - 1] == '/')
            len--;
        part[len] = '\0';
        if (rmdir(part) != 0)
            return;
        while (len > 0 && part[len - 1] != '/')
            len--;
    }
}

const char *output_path(Arena *a, const char *dir, const char *name)
{
    return dir == NULL || dir[0] == '\0' ? name : arena_printf(a, "%s/%s", dir, name);
}

const char *output_stem(Arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *whole = arena_strndup(a, path, n), *slash = strrchr(whole, '/');
    const char *base = slash != NULL ? slash + 1 : whole, *dot = strrchr(base, '.');
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) // dots are those of versions
        return base;
    return arena_strndup(a, base, dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base));
}

const char *output_npy_name(Arena *a, const char *value)
{
    enum { MOST = 200 };
    char *s = arena_strdup(a, value);
    for (char *c = s; *c != '\0'; c++)
        if (*c == '/' || *c == ':' || *c == '\\')
            *c = '_';
    const size_t len = strlen(s);
    size_t n = len < MOST ? len : MOST;
    while (n < len && n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80) // not within a character
        n--;
    return n == len ? arena_printf(a, "%s.npy", s)
                    : arena_printf(a, "%.*s-%08x.npy", (int)n, s, hash_bytes(s, len));
}

const char *output_shell_word(Arena *a, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./%=,:+@";
    Str s = str_new(a);
    if (*text != '\0' && text[strspn(text, plain)] == '\0')
        return text;
    str_char(&s, '\'');
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'')
            str_add(&s, "'\\''");
        else
            str_char(&s, *c);
    }
    str_char(&s, '\'');
    return str_text(&s);
}
