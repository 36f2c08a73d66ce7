// SPDX-License-Identifier: Apache-2.0
// See adapters.h.
#include "compiler/job/adapters.h"
#include "compiler/import/gguf/gguf_model.h"
#include "compiler/import/hf/hf.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// FILE or FILE=SCALE. False: reported.
static bool split(Job *j, const char *given, const char **path, double *scale)
{
    const char *mark = strrchr(given, '=');
    *scale = 1;
    *path = mark == NULL ? given : arena_strndup(j->cli->arena, given, (size_t)(mark - given));
    if (mark != NULL && (!str_parse_f64(mark + 1, strlen(mark + 1), scale) || !isfinite((float)*scale)))
        return diag_error(j->cli->diag, (Span){0}, E0003,
                          "--lora %s: expected a number behind '=', as in FILE=0.5", given);
    return (*path)[0] != '\0' ||
           diag_error(j->cli->diag, (Span){0}, E0003, "--lora %s: expected a file", given);
}

// "lora_NAME" by the name of the file, without ending; what is no letter or digit becomes an underscore.
static const char *param_of(Arena *a, const char *path)
{
    static const char ending[] = ".gguf";
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    if (n - begin > strlen(ending) && strncmp(path + n - strlen(ending), ending, strlen(ending)) == 0)
        n -= strlen(ending);
    char *name = arena_strdup(a, arena_printf(a, "lora_%.*s", (int)(n - begin), path + begin));
    for (char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c >= 128)
            *c = '_';
    return name;
}

static bool read_one(Job *j, const char *given, LlmAdapter *out)
{
    Arena *a = j->cli->arena;
    const char *path = NULL;
    double scale = 0;
    if (!split(j, given, &path, &scale))
        return false;
    const bool is_read = hf_is_folder(path) ? hf_adapter(a, j->cli->diag, path, out)
                                            : gguf_adapter(a, j->cli->diag, path, out);
    if (!is_read)
        return false;
    out->scale = scale;
    out->param = param_of(a, path);
    for (uint32_t i = 0; i < j->n_adapters; i++)
        if (str_equal(j->adapters[i].param, out->param))
            return diag_error(j->cli->diag, (Span){0}, E0003,
                              "--lora %s: another adapter has the parameter '%s' already; rename one of "
                              "the files",
                              given, out->param);
    return true;
}

bool adapters_read(Job *j)
{
    rlx_assert(j->n_adapters == 0);
    const Strings *given = &j->cli->options.loras;
    j->adapters = ARENA_ARRAY(j->cli->arena, LlmAdapter, given->len + 1);
    for (uint32_t i = 0; i < given->len; i++) {
        if (!read_one(j, given->data[i], &j->adapters[i]))
            return false;
        j->n_adapters++;
    }
    return true;
}
