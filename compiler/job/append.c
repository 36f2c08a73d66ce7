// SPDX-License-Identifier: Apache-2.0
// See append.h.
#include "compiler/job/append.h"

#include <string.h>

void job_append(Job *j, const char *name, const Str *more)
{
    for (uint32_t i = 0; i < j->emitted.files.len; i++) {
        EmittedFile *f = &j->emitted.files.data[i];
        if (strcmp(f->name, name) != 0)
            continue;
        rlx_assert(f->data != NULL && f->before.len == 0 && f->behind.len == 0);
        char *text = arena_alloc(j->cli->arena, f->len + more->len + 1);
        memcpy(text, f->data, f->len);
        memcpy(text + f->len, str_text(more), more->len + 1);
        f->data = text;
        f->len += more->len;
        return;
    }
    rlx_assert(!"the file is there");
}
