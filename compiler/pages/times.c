// SPDX-License-Identifier: Apache-2.0
// See times.h.
#include "compiler/pages/times.h"
#include "compiler/system/rawfile.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { MAX_KERNELS = 1 << 20 };

static bool wrong(Cli *c, const char *path, const char *member)
{
    return diag_error(c->diag, (Span){0}, E0112, "%s: member '%s' is missing or of another kind", path,
                      member);
}

static bool read_number(Cli *c, const char *path, const cJSON *object, const char *name, double *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) || item->valuedouble < 0)
        return wrong(c, path, name);
    *out = item->valuedouble;
    return true;
}

static bool read_text(Cli *c, const char *path, const cJSON *object, const char *name, const char **out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(item))
        return wrong(c, path, name);
    *out = arena_strdup(c->arena, item->valuestring);
    return true;
}

static bool read_kernels(Cli *c, const cJSON *list, Times *t)
{
    const cJSON *item = NULL;
    if (!cJSON_IsArray(list))
        return wrong(c, t->path, "kernels");
    cJSON_ArrayForEach(item, list)
    {
        TimesKernel k = {0};
        if (t->kernels.len == MAX_KERNELS || !read_text(c, t->path, item, "name", &k.name) ||
            !read_number(c, t->path, item, "us", &k.us))
            return false;
        vec_push(c->arena, &t->kernels, k);
    }
    return true;
}

static bool read_all(Cli *c, const cJSON *root, Times *t)
{
    const cJSON *machine = cJSON_GetObjectItemCaseSensitive(root, "machine");
    if (!read_text(c, t->path, root, "target", &t->target) || !read_text(c, t->path, root, "cpu", &t->cpu) ||
        !read_number(c, t->path, root, "us", &t->us) ||
        !read_kernels(c, cJSON_GetObjectItemCaseSensitive(root, "kernels"), t))
        return false;
    return machine == NULL || (read_number(c, t->path, machine, "peak_gflops", &t->peak_gflops) &&
                               read_number(c, t->path, machine, "read_gbs", &t->read_gbs) &&
                               read_number(c, t->path, machine, "memory_gbs", &t->memory_gbs));
}

bool times_read(Cli *c, const char *path, Times *out)
{
    RawFile file;
    *out = (Times){.path = path};
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file))
        return false;
    cJSON *root = cJSON_ParseWithLength(file.data, file.len);
    if (root == NULL)
        return diag_error(c->diag, (Span){0}, E0112, "%s is not JSON", path);
    const bool ok = read_all(c, root, out);
    cJSON_Delete(root);
    return ok;
}

// --- the plan ------------------------------------------------------------------------------------

typedef struct Walk {
    const Times *times;
    uint32_t next; // of the times: both lists are in the same order, bodies of loops have none
    uint32_t row;
    Str *out; // NULL: only look
} Walk;

static void visit(const Plan *p, PlanKernel *k, uint64_t trips, void *ctx)
{
    Walk *w = ctx;
    (void)p, (void)trips;
    if (w->next < w->times->kernels.len &&
        strcmp(w->times->kernels.data[w->next].name, k->kernel->name) == 0) {
        if (w->out != NULL) {
            str_printf(w->out, "%s{\"row\": %u, \"us\": ", w->next == 0 ? "" : ", ", w->row);
            str_f64(w->out, w->times->kernels.data[w->next].us);
            str_add(w->out, "}");
        }
        w->next++;
    }
    w->row++;
}

bool times_check(Job *j, const Times *t)
{
    Walk w = {.times = t};
    if (strcmp(t->cpu, j->cpu.name) != 0 || strcmp(t->target, j->target->name) != 0)
        return diag_error(j->cli->diag, (Span){0}, E0112,
                          "%s: measured with --target %s --cpu %s, not with --target %s --cpu %s", t->path,
                          t->target, t->cpu, j->target->name, j->cpu.name);
    plan_walk(j->plan, visit, &w);
    return w.next == t->kernels.len ||
           diag_error(j->cli->diag, (Span){0}, E0112,
                      "%s: kernel '%s' is not in this plan; inspect takes the model and the options that "
                      "were measured",
                      t->path, t->kernels.data[w.next].name);
}

static void print_member(const char *name, double value, Str *out)
{
    str_printf(out, "\"%s\": ", name);
    str_f64(out, value);
    str_add(out, ", ");
}

void times_print(Job *j, const Times *t, Str *out)
{
    Walk w = {.times = t, .out = out};
    str_add(out, "{");
    print_member("us", t->us, out);
    print_member("peak_gflops", t->peak_gflops, out);
    print_member("read_gbs", t->read_gbs, out);
    print_member("memory_gbs", t->memory_gbs, out);
    str_add(out, "\"kernels\": [");
    plan_walk(j->plan, visit, &w);
    str_add(out, "]}");
}
