// SPDX-License-Identifier: Apache-2.0
// The page of `rlxc inspect --html`: the files of compiler/html with the facts of a model as JSON inside.
// See pages.h.
#include "compiler/system/rawfile.h"
#include "compiler/system/json_text.h"
#include "compiler/pages/page_text.h"
#include "compiler/pages/pages.h"
#include <string.h>

static void add_lines(const char *const *lines, Str *out)
{
    for (; *lines != NULL; lines++)
        str_add(out, *lines);
}

// JSON inside of a script element ends at no `</script>`, whatever the names in the model are: `<` only
// stands in strings, where it may be written otherwise.
static void add_data(const char *json, Str *out)
{
    for (const char *c = json; *c != '\0';) {
        const size_t n = strcspn(c, "<");
        str_add_n(out, c, n);
        c += n;
        if (*c == '<') {
            str_add(out, "\\u003c");
            c++;
        }
    }
}

static void add_setting(const char *name, const char *value, Str *out)
{
    str_printf(out, "%s[\"%s\", \"%s\"]", out->len == 0 || out->data[out->len - 1] == '[' ? "" : ", ", name,
               json_text(out->arena, value));
}

// What decides about the plan and was not given as data.
static void print_settings(const Job *j, Str *out)
{
    const Options *o = &j->cli->options;
    const struct {
        const char *name;
        const Strings *values;
    } lists[] = {{"--dim", &o->dims},          {"--shape", &o->shapes},
                 {"--value", &o->values},      {"--bucket", &o->bucket_sizes},
                 {"--arena-at", &o->arena_at}, {"--handle", &o->handles}};
    str_add(out, "\"settings\": [");
    add_setting("model", j->model, out);
    add_setting("compiler", "rlxc " RLXC_VERSION, out);
    add_setting("--target", j->target->name, out);
    add_setting("--cpu", j->cpu.name, out);
    add_setting("--threads", arena_printf(out->arena, "%d", j->caps.threads), out);
    add_setting("-O", arena_printf(out->arena, "%d", j->pipeline.opt_level), out);
    for (uint32_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (uint32_t k = 0; k < lists[i].values->len; k++)
            add_setting(lists[i].name, lists[i].values->data[k], out);
    str_add(out, "]");
}

static const char *data(Job *j, const char *before, const char *facts, const Times *times)
{
    Str text = str_new(j->cli->arena), *out = &text;
    str_printf(out, "{\"inspect\": ");
    str_add(out, facts);
    str_add(out, ", ");
    print_settings(j, out);
    str_add(out, ",\n\"before\": ");
    str_add(out, before);
    str_add(out, ",\n\"times\": ");
    if (times != NULL)
        times_print(j, times, out);
    else
        str_add(out, "null");
    str_add(out, ",\n\"plan\": {");
    pages_plan(j->plan, out);
    str_add(out, "}}\n");
    return str_text(out);
}

bool pages_write_html(Job *j, const char *path, const char *before, const char *facts, const Times *times)
{
    rlx_assert(j->plan != NULL && before != NULL && facts != NULL);
    Str page = str_new(j->cli->arena);
    for (const char *const *line = html_page; *line != NULL; line++) {
        if (strcmp(*line, "<!-- style -->\n") == 0)
            add_lines(html_style, &page);
        else if (strcmp(*line, "<!-- data -->\n") == 0)
            add_data(data(j, before, facts, times), &page);
        else if (strcmp(*line, "<!-- script -->\n") == 0)
            add_lines(html_script, &page);
        else
            str_add(&page, *line);
    }
    const FilePart part = {str_text(&page), page.len};
    return rawfile_write(j->cli->diag, path, &part, 1);
}
