// SPDX-License-Identifier: Apache-2.0
// Places in a JSON document and errors at them. cJSON keeps no byte offsets, so the place of a value is
// looked up in the text, from the nearest ancestor whose place is known, and only when a message needs it.
#include "compiler/import/json/json_reader.h"

#include <string.h>

enum { SHOWN = 40 }; // bytes of a wrong value in a message

static uint32_t find_begin(JsonReader *r, const JsonPlace *p)
{
    if (p->range.end)
        return p->range.begin;
    return p->up ? json_find_child(r->text, find_begin(r, p->up), p->index)
                 : json_find_root(r->text, r->len).begin;
}

static JsonRange find_range(JsonReader *r, const JsonPlace *p)
{
    if (p->range.end)
        return p->range;
    return p->up ? json_find_end(r->text, find_begin(r, p)) : json_find_root(r->text, r->len);
}

// JSON pointer (RFC 6901).
static void add_path(Str *out, const JsonPlace *p)
{
    if (!p->up)
        return;
    add_path(out, p->up);
    if (!cJSON_IsObject(p->up->item)) {
        str_printf(out, "/%u", p->index);
        return;
    }
    str_char(out, '/');
    for (const char *c = p->item->string; *c; c++) {
        if (*c == '~' || *c == '/')
            str_add(out, *c == '~' ? "~0" : "~1");
        else
            str_char(out, *c);
    }
}

Span json_span(JsonReader *r, const JsonPlace *p)
{
    JsonRange range = find_range(r, p);
    r->path.len = 0;
    add_path(&r->path, p);
    const char *path = arena_strndup(r->arena, str_text(&r->path), r->path.len);
    return (Span){.file = r->file, .begin = range.begin, .end = range.end, .path = path};
}

bool json_is_hopeless(JsonReader *r)
{
    return r->diag->n_errors >= DIAG_MAX_ERRORS;
}

bool json_error(JsonReader *r, const JsonPlace *p, DiagCode code, const char *fmt, ...)
{
    if (json_is_hopeless(r)) // counted, not shown: do not search for the place
        return diag_error(r->diag, (Span){0}, code, "%s", "");
    va_list args;
    va_start(args, fmt);
    const char *message = arena_vprintf(r->arena, fmt, args);
    va_end(args);
    return diag_error(r->diag, json_span(r, p), code, "%s", message);
}

static const char *describe(JsonReader *r, const JsonPlace *p)
{
    if (cJSON_IsObject(p->item))
        return p->item->child ? "an object" : "an empty object";
    if (cJSON_IsArray(p->item))
        return p->item->child ? "a list" : "an empty list";
    JsonRange range = find_range(r, p);
    uint32_t len = range.end - range.begin;
    const char *kind = cJSON_IsString(p->item) ? "the string " : cJSON_IsNumber(p->item) ? "the number " : "";
    return arena_printf(r->arena, "%s%.*s%s", kind, (int)(len > SHOWN ? SHOWN : len), r->text + range.begin,
                        len > SHOWN ? "..." : "");
}

bool json_wrong(JsonReader *r, const JsonPlace *p, const char *expected)
{
    if (json_is_hopeless(r))
        return json_error(r, p, E0102, "%s", "");
    return json_error(r, p, E0102, "expected %s, found %s", expected, describe(r, p));
}

const char *json_hint(JsonReader *r, const char *name, const char *const *candidates, uint32_t n)
{
    const char *near = n ? str_closest(name, candidates, n) : NULL;
    return near ? arena_printf(r->arena, "; did you mean '%s'?", near) : "";
}

bool json_next(const JsonPlace *p, JsonPlace *child)
{
    rlx_assert(child->item == NULL || child->up == p);
    if (!child->item)
        *child = (JsonPlace){.up = p, .item = p->item ? p->item->child : NULL};
    else
        *child = (JsonPlace){.up = p, .item = child->item->next, .index = child->index + 1};
    return child->item != NULL;
}

const JsonRange *json_ranges(JsonReader *r, const JsonPlace *p)
{
    rlx_assert(p->item != NULL);
    uint32_t n = 0;
    for (const cJSON *item = p->item->child; item; item = item->next)
        n++;
    return n ? json_find_children(r->arena, r->text, find_begin(r, p), n) : NULL;
}

static bool unknown_member(JsonReader *r, const JsonPlace *p, const char *owner, DiagCode code,
                           const JsonMember *m, uint32_t n)
{
    const char **names = ARENA_ARRAY(r->arena, const char *, n);
    for (uint32_t i = 0; i < n; i++)
        names[i] = m[i].name;
    const char *name = p->item->string;
    const char *kind = code == E0203 ? "attribute" : "member";
    return json_error(r, p, code, "%s has no %s '%s'%s", owner, kind, name, json_hint(r, name, names, n));
}

bool json_members(JsonReader *r, const JsonPlace *p, const char *owner, DiagCode code, JsonMember *m,
                  uint32_t n)
{
    bool ok = true;
    JsonPlace child = {0};
    if (!cJSON_IsObject(p->item))
        return json_wrong(r, p, arena_printf(r->arena, "an object that describes %s", owner));
    while (json_next(p, &child) && !json_is_hopeless(r)) {
        uint32_t i = 0;
        while (i < n && strcmp(child.item->string, m[i].name) != 0)
            i++;
        if (i == n)
            ok = unknown_member(r, &child, owner, code, m, n);
        else if (m[i].place.item)
            ok = json_error(r, &child, E0102, "the member '%s' is given twice", m[i].name);
        else
            m[i].place = child;
    }
    for (uint32_t i = 0; i < n; i++)
        if (m[i].is_required && !m[i].place.item)
            ok = json_error(r, p, E0102, "%s needs the member '%s'", owner, m[i].name);
    return ok;
}
