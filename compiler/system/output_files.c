// SPDX-License-Identifier: Apache-2.0
// See output_files.h.
#include "compiler/system/output_files.h"
#include "compiler/system/interrupt.h"
#include "compiler/system/output.h"

bool output_begin(OutputFiles *f, Diag *d, const char *dir, uint32_t most)
{
    *f = (OutputFiles){
        .diag = d, .dir = dir, .writers = ARENA_ARRAY(d->arena, RawWriter, most), .most = most};
    interrupt_hold();
    return output_make_folders(d, dir, &f->n_folders);
}

RawWriter *output_add(OutputFiles *f, const char *name)
{
    rlx_assert(f->n < f->most);
    RawWriter *w = &f->writers[f->n];
    if (!rawfile_create(w, f->diag, output_path(f->diag->arena, f->dir, name)))
        return NULL;
    f->n++;
    return w;
}

bool output_add_parts(OutputFiles *f, const char *name, const FilePart *parts, uint32_t n_parts)
{
    RawWriter *w = output_add(f, name);
    return w != NULL && rawfile_append_parts(w, parts, n_parts);
}

bool output_end(OutputFiles *f, bool is_complete)
{
    rlx_assert(f->n <= f->most);
    for (uint32_t i = 0; i < f->n; i++)
        is_complete = rawfile_commit(&f->writers[i], is_complete) && is_complete;
    if (!is_complete)
        output_remove_folders(f->diag->arena, f->dir, f->n_folders);
    interrupt_release();
    return is_complete;
}

bool output_write_pair(Arena *a, Diag *d, const char *dir, const char *name, const Str *header,
                       const Str *code)
{
    OutputFiles files = {0};
    const FilePart h = {header->data, header->len}, c = {code->data, code->len};
    bool ok = output_begin(&files, d, dir, 2);
    ok = ok && output_add_parts(&files, arena_printf(a, "%s.h", name), &h, 1) &&
         output_add_parts(&files, arena_printf(a, "%s.c", name), &c, 1);
    return output_end(&files, ok) && ok;
}
