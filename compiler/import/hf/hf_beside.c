// SPDX-License-Identifier: Apache-2.0
// What other files of a folder than config.json say: which tokens begin and end texts, how the rows of a text
// become one vector, and how sound becomes spectrograms. Separate because a folder may lack these files.
#include "compiler/import/hf/hf_build.h"
#include "compiler/import/llm/mel.h"
#include "compiler/system/json_scan.h"
#include "compiler/system/rawfile.h"

#include <string.h>

// A number, or entry `index` of a list; -1: neither is there.
static int64_t id_of(const cJSON *item, int index)
{
    const cJSON *v = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, index) : index == 0 ? item : NULL;
    const bool is_id = cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < INT32_MAX;
    return is_id ? (int64_t)v->valuedouble : -1;
}

// The members of an object in a file. NULL: there is no such file, or it is something else.
static const cJSON *members_of(Arena *a, const char *path)
{
    RawFile f;
    Diag quiet = diag_new(a);
    size_t at = 0;
    const char *why = NULL;
    if (!rawfile_peek(a, path, &f) || json_check(f.data, f.len, &at, &why) != JSON_FINE)
        return NULL;
    rawfile_open(a, &quiet, (Span){0}, path, &f); // what follows depends on it
    const cJSON *tree = json_parse(a, f.data, f.len, &at);
    return cJSON_IsObject(tree) ? tree->child : NULL;
}

static void read_ends(Arena *a, const char *path, HfEnds *out)
{
    for (const cJSON *m = members_of(a, path); m != NULL; m = m->next) {
        if (strcmp(m->string, "bos_token_id") == 0 && out->bos < 0)
            out->bos = id_of(m, 0);
        for (int i = 0; i < 2 && strcmp(m->string, "eos_token_id") == 0; i++)
            if (out->eos[i] < 0)
                out->eos[i] = id_of(m, i);
    }
}

void hf_ends(Arena *a, const char *folder, HfEnds *out)
{
    *out = (HfEnds){-1, {-1, -1}};
    read_ends(a, arena_printf(a, "%s/generation_config.json", folder), out);
    if (out->eos[0] < 0)
        read_ends(a, arena_printf(a, "%s/config.json", folder), out);
}

bool hf_pooling(const HfFolder *h, double *out)
{
    static const struct {
        const char *member;
        double number;
    } known[] = {{"pooling_mode_mean_tokens", 1},
                 {"pooling_mode_cls_token", 2},
                 {"pooling_mode_lasttoken", 3}};
    const cJSON *all = members_of(h->arena, arena_printf(h->arena, "%s/1_Pooling/config.json", h->path));
    for (const cJSON *m = all; m != NULL; m = m->next)
        for (uint32_t i = 0; i < sizeof known / sizeof *known && cJSON_IsTrue(m); i++)
            if (strcmp(m->string, known[i].member) == 0) {
                *out = known[i].number;
                return true;
            }
    return false;
}

bool hf_check_sound(HfFolder *h)
{
    const struct {
        const char *member;
        double number;
    } only[] = {{"sampling_rate", MEL_RATE}, {"hop_length", MEL_HOP}, {"n_fft", MEL_WINDOW}};
    const cJSON *all = members_of(h->arena, arena_printf(h->arena, "%s/preprocessor_config.json", h->path));
    for (const cJSON *m = all; m != NULL; m = m->next)
        for (uint32_t i = 0; i < sizeof only / sizeof *only; i++)
            if (strcmp(m->string, only[i].member) == 0 && !(m->valuedouble == only[i].number))
                return diag_error(h->diag, (Span){0}, E0115,
                                  "'%s' of preprocessor_config.json: expected %.0f, with which rlxc makes "
                                  "spectrograms",
                                  only[i].member, only[i].number);
    return true;
}
