// SPDX-License-Identifier: Apache-2.0
// See diff_side.h. Models give the same JSON text as inspect, so that all is read in one way.
#include "compiler/report/diff_side.h"
#include "compiler/system/rawfile.h"
#include "compiler/report/inspect_json.h"
#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_REPORT = 64 << 20 };

const char *const diff_figures[DIFF_MAX_FIGURES + 1] = {
    "arena_bytes", "arena_lower_bound_bytes", "peak_bytes", "state_bytes", "weight_bytes", "device_bytes",
    "text_bytes",  "functions",               "parameters", "macs",        "flops",        "bytes",
    "threads",     "barriers",                "us",         "us_best",     NULL};

// --- JSON ----------------------------------------------------------------------------------------

static void set_figure(DiffFigures *f, const char *name, double v)
{
    for (uint32_t i = 0; diff_figures[i] != NULL; i++)
        if (strcmp(diff_figures[i], name) == 0) {
            f->value[i] = v;
            f->has[i] = true;
        }
}

static void read_figures(const cJSON *object, DiffFigures *out)
{
    const cJSON *member = NULL;
    cJSON_ArrayForEach(member, object)
        if (cJSON_IsNumber(member) && member->string != NULL)
            set_figure(out, member->string, member->valuedouble);
}

static const char *text_member(Arena *a, const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(member) ? arena_strdup(a, member->valuestring) : "";
}

// False: this is no report.
static bool read_report(Arena *a, const char *text, size_t len, DiffSide *out)
{
    cJSON *doc = cJSON_ParseWithLength(text, len);
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(doc, "kernels"), *kernel = NULL;
    const bool ok = cJSON_IsArray(kernels);
    if (ok)
        read_figures(doc, &out->figures);
    cJSON_ArrayForEach(kernel, kernels)
    {
        DiffKernel k = {.name = text_member(a, kernel, "name"), .nodes = text_member(a, kernel, "nodes")};
        read_figures(kernel, &k.figures);
        vec_push(a, &out->kernels, k);
    }
    cJSON_Delete(doc);
    return ok;
}

// --- C -------------------------------------------------------------------------------------------

// The body of the function of a kernel: from its name on, so that renaming is no change.
static void find_text(const char *c, DiffKernel *k, Arena *a)
{
    const char *head = strstr(c, arena_printf(a, " %s(", k->name));
    const char *body = head != NULL ? strchr(head, '\n') : NULL;
    const char *end = body != NULL ? strstr(body, "\n}\n") : NULL;
    if (end == NULL || strncmp(body, "\n{", 2) != 0)
        return;
    k->text = strchr(head, '(');
    k->len = (size_t)(end - k->text);
}

static void find_texts(const char *c, Arena *a, DiffSide *out)
{
    for (uint32_t i = 0; i < out->kernels.len; i++)
        find_text(c, &out->kernels.data[i], a);
}

// A string of C after `at`; NULL: there is none.
static const char *read_string(Arena *a, const char **at)
{
    Str s = str_new(a);
    const char *c = strchr(*at, '"');
    if (c == NULL)
        return NULL;
    for (c++; *c != '\0' && *c != '"' && *c != '\n'; c++) {
        c += *c == '\\' && c[1] != '\0';
        str_char(&s, *c);
    }
    *at = c + (*c != '\0');
    return *c == '"' ? str_text(&s) : NULL;
}

// {"k0_add", "y = add", macs, bytes, flops, ...} of the table of kernels.
static void read_table(Arena *a, const char *c, DiffSide *out)
{
    static const char *const names[] = {"macs", "bytes", "flops"};
    const char *at = strstr(c, "static const rlx_kernel kernels[] = {\n");
    const char *end = at != NULL ? strstr(at, "\n};") : NULL;
    for (at = end != NULL ? strchr(at, '\n') : NULL; at != NULL && at < end; at = strchr(at, '\n')) {
        DiffKernel k = {.name = read_string(a, &at)};
        k.nodes = k.name != NULL ? read_string(a, &at) : NULL;
        if (k.nodes == NULL)
            return;
        for (uint32_t i = 0; i < 3 && *at != '\0'; i++) {
            char *rest = NULL;
            set_figure(&k.figures, names[i], (double)strtoull(at + strspn(at, ", "), &rest, 10));
            at = rest + strspn(rest, "u");
        }
        vec_push(a, &out->kernels, k);
    }
}

// #define NAME_ARENA_BYTES 12288u
static void read_define(const char *h, const char *suffix, const char *figure, DiffSide *out)
{
    for (const char *at = h; (at = strstr(at, suffix)) != NULL; at++) {
        const char *line = at;
        while (line > h && line[-1] != '\n')
            line--;
        if (strncmp(line, "#define ", 8) == 0) {
            set_figure(&out->figures, figure, (double)strtoull(at + strlen(suffix), NULL, 10));
            return;
        }
    }
}

static const char *file_text(Cli *c, const char *path)
{
    RawFile file;
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file))
        return NULL;
    return arena_strndup(c->arena, file.data, file.len);
}

// NAME of the one NAME.h beside a NAME.c.
static const char *find_name(Cli *c, const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry = NULL;
    const char *found = NULL;
    uint32_t n = 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat st;
        const size_t len = strlen(entry->d_name);
        if (len < 3 || strcmp(entry->d_name + len - 2, ".h") != 0)
            continue;
        const char *name = arena_strndup(c->arena, entry->d_name, len - 2);
        if (stat(arena_printf(c->arena, "%s/%s.c", path, name), &st) == 0 && n++ == 0)
            found = name;
    }
    if (dir != NULL)
        closedir(dir);
    if (n != 1)
        diag_error(c->diag, (Span){0}, E0003, "%s: expected a folder with one NAME.c and NAME.h, found %u",
                   path, n);
    return n == 1 ? found : NULL;
}

static bool read_folder(Cli *c, const char *path, DiffSide *out)
{
    const char *name = find_name(c, path);
    const char *h = name != NULL ? file_text(c, arena_printf(c->arena, "%s/%s.h", path, name)) : NULL;
    const char *text = h != NULL ? file_text(c, arena_printf(c->arena, "%s/%s.c", path, name)) : NULL;
    if (text == NULL)
        return false;
    read_define(h, "_ARENA_BYTES ", "arena_bytes", out);
    read_define(h, "_STATE_BYTES ", "state_bytes", out);
    read_define(h, "_WEIGHT_BYTES ", "weight_bytes", out);
    set_figure(&out->figures, "text_bytes", (double)strlen(text));
    read_table(c->arena, text, out);
    find_texts(text, c->arena, out);
    return true;
}

// --- models --------------------------------------------------------------------------------------

static bool read_model(Cli *c, const char *path, DiffSide *out)
{
    Job j;
    Cli one = *c;
    const char *args[] = {path};
    one.options.args.data = args;
    one.options.args.len = one.options.args.cap = 1;
    if (!job_begin(&j, &one, "generic", false) || !job_plan(&j))
        return false;
    j.host.compile_gpu = NULL; // slow, and nothing of it is compared
    if (!job_emit(&j))
        return false;
    const Totals t = facts_count(j.plan);
    const char *json = inspect_json(&j, &t, &(Measures){0});
    const bool is_report = read_report(c->arena, json, strlen(json), out);
    rlx_assert(is_report && out->kernels.len == plan_count_kernels(j.plan));
    for (uint32_t i = 0; i < j.emitted.files.len; i++) {
        const EmittedFile *f = &j.emitted.files.data[i];
        if (f->data != NULL && str_ends_with(f->name, ".c"))
            find_texts(arena_strndup(c->arena, f->data, f->len), c->arena, out);
    }
    return true;
}

bool diff_read(Cli *c, const char *path, DiffSide *out)
{
    struct stat st;
    RawFile file;
    *out = (DiffSide){.path = path};
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return read_folder(c, path, out);
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file))
        return false;
    if (file.len > 0 && file.len <= MAX_REPORT && file.data[0] == '{' &&
        read_report(c->arena, file.data, file.len, out))
        return true;
    return read_model(c, path, out);
}
