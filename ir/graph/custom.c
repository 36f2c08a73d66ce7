// SPDX-License-Identifier: Apache-2.0
// See custom.h.
#include "ir/graph/custom.h"

#include <ctype.h>
#include <string.h>

// --- words ---------------------------------------------------------------------------------------

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool custom_is_name(const char *text)
{
    static const char *const kept[] = {
        "i",      "auto",   "break",   "case",    "char",     "const",    "continue", "default", "do",
        "double", "else",   "enum",    "extern",  "float",    "for",      "goto",     "if",      "inline",
        "int",    "long",   "main",    "out",     "return",   "short",    "signed",   "sizeof",  "static",
        "struct", "switch", "typedef", "union",   "void",     "while",    "floor",    "ceil",    "min",
        "max",    "mod",    "in",      "inout",   "unsigned", "register", "restrict", "volatile", "asm",
        "typeof", "bool",   "true",    "false",   "nullptr",  "linux",    "unix",     "NAN",     "INFINITY",
        "NULL",   "and",    "or",      "not",     "xor",      "bitand",   "bitor",    "compl",   "and_eq",
        "or_eq",  "xor_eq", "not_eq",  "catch",   "class",    "concept",  "delete",   "explicit", "export",
        "friend", "mutable", "namespace", "new",  "operator", "private",  "protected", "public", "requires",
        "template", "this", "throw",   "try",     "typeid",   "typename", "using",    "virtual", "wchar_t"};
    bool ok = isalpha((unsigned char)*text) && strncmp(text, "rlx", 3) != 0 && strlen(text) <= 60;
    for (const char *p = text; *p != '\0'; p++)
        ok = ok && is_word_char(*p);
    for (uint32_t k = 0; k < sizeof kept / sizeof *kept; k++)
        ok = ok && strcmp(text, kept[k]) != 0;
    return ok;
}

static const char *bad_name(Arena *a, const char *name)
{
    return arena_printf(a, "'%s' is no name: expected letters, digits and _, no word of C, not i, not rlx...",
                        name);
}

static bool is_kind(const char *p, char c)
{
    return c == ' ' ? isspace((unsigned char)*p) != 0 : *p == c;
}

// The text without spaces around it.
static const char *trimmed(Arena *a, const char *text, size_t n)
{
    while (n > 0 && is_kind(text, ' '))
        text++, n--;
    while (n > 0 && is_kind(text + n - 1, ' '))
        n--;
    return arena_strndup(a, text, n);
}

// Up to the next `end` outside of parentheses and brackets, which is skipped. NULL at the end of the text.
static const char *take(Arena *a, const char **at, char end)
{
    const char *begin = *at, *p = begin;
    int depth = 0;
    if (*trimmed(a, begin, strlen(begin)) == '\0')
        return NULL;
    for (; *p != '\0' && (*p != end || depth > 0); p++)
        depth += *p == '(' || *p == '[' ? 1 : *p == ')' || *p == ']' ? -1 : 0;
    *at = *p == '\0' ? p : p + 1;
    return trimmed(a, begin, (size_t)(p - begin));
}

// --- tensors and constants -----------------------------------------------------------------------

// Types whose elements are a type of their own in every language.
static bool has_plain_elements(DType t)
{
    return t != DTYPE_f16 && t != DTYPE_bf16 && t != DTYPE_bool && !dtype_is_narrow(t);
}

static const char *read_tensor(Arena *a, const char *text, CustomTensor *out)
{
    const char *colon = strchr(text, ':'), *open = colon == NULL ? NULL : strchr(colon, '[');
    const size_t len = strlen(text);
    if (open == NULL || text[len - 1] != ']')
        return arena_printf(a, "'%s' is no tensor: expected name: type[sizes], as x: f32[n, 4]", text);
    out->name = trimmed(a, text, (size_t)(colon - text));
    const char *type = trimmed(a, colon + 1, (size_t)(open - colon - 1));
    if (!custom_is_name(out->name))
        return bad_name(a, out->name);
    if (!dtype_parse(type, &out->dtype) || !has_plain_elements(out->dtype))
        return arena_printf(a, "the type of '%s' is '%s', expected f32, f64 or integers of 8 to 64 bits",
                            out->name, type);
    const char *at = arena_strndup(a, open + 1, (size_t)(text + len - 1 - (open + 1))), *dim = NULL;
    for (out->rank = 0; (dim = take(a, &at, ',')) != NULL; out->rank++) {
        if (out->rank == SHAPE_MAX_RANK)
            return arena_printf(a, "'%s' has more than %d axes", out->name, SHAPE_MAX_RANK);
        if (*dim == '\0')
            return arena_printf(a, "'%s' has an empty size", out->name);
        out->dim[out->rank] = dim;
    }
    return NULL;
}

const char *custom_read_tensors(Arena *a, const char *text, CustomTensors *out)
{
    const char *one = NULL, *wrong = NULL;
    for (out->n = 0; (one = take(a, &text, ';')) != NULL; out->n++) {
        if (out->n == CUSTOM_MAX_TENSORS)
            return arena_printf(a, "more than %d tensors", CUSTOM_MAX_TENSORS);
        wrong = read_tensor(a, one, &out->at[out->n]);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static const char *add_name(Arena *a, CustomNames *names, CustomName name)
{
    if (names->n == CUSTOM_MAX_NAMES)
        return arena_printf(a, "more than %d names", CUSTOM_MAX_NAMES);
    names->at[names->n++] = name;
    return NULL;
}

static const char *read_constant(Arena *a, const char *text, CustomNames *out)
{
    const char *equals = strchr(text, '=');
    int64_t whole = 0;
    double number = 0;
    if (equals == NULL)
        return arena_printf(a, "'%s' is no constant: expected name = number", text);
    const char *name = trimmed(a, text, (size_t)(equals - text));
    const char *value = trimmed(a, equals + 1, strlen(equals + 1));
    if (!custom_is_name(name))
        return bad_name(a, name);
    const bool is_float = strpbrk(value, ".en") != NULL;
    if (!(is_float ? str_parse_f64(value, strlen(value), &number)
                   : str_parse_i64(value, strlen(value), &whole)) ||
        number - number != 0 || whole > DIM_MAX_VALUE || whole < -DIM_MAX_VALUE)
        return arena_printf(a, "'%s' is '%s', expected a number of at most 2^40 in magnitude", name, value);
    return add_name(a, out, (CustomName){name, is_float, whole, number});
}

const char *custom_read_constants(Arena *a, const char *text, CustomNames *out)
{
    const char *one = NULL, *wrong = NULL;
    while (wrong == NULL && (one = take(a, &text, ';')) != NULL)
        wrong = read_constant(a, one, out);
    return wrong;
}

// --- sizes ---------------------------------------------------------------------------------------

static const CustomName *find_name(const CustomNames *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i].name, name) == 0)
            return &names->at[i];
    return NULL;
}

static bool is_function(const char *word)
{
    static const char *const functions[] = {"floor", "ceil", "min", "max", "mod"};
    for (uint32_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(word, functions[i]) == 0)
            return true;
    return false;
}

// The expression with what names stand for, which the table's own parser reads.
static const char *put_sizes(DimTable *t, Arena *a, const char *text, const CustomNames *names, Str *out)
{
    for (const char *p = text; *p != '\0';) {
        size_t n = 0;
        while (is_word_char(p[n]))
            n++;
        if (n == 0 || isdigit((unsigned char)*p)) {
            n = n == 0 ? 1 : n;
            str_add_n(out, p, n);
        } else {
            const char *word = arena_strndup(a, p, n);
            const CustomName *name = find_name(names, word);
            if (!is_function(word) && (name == NULL || name->is_float))
                return arena_printf(a, "'%s' in '%s' is no size of an operand, and no whole constant", word,
                                    text);
            str_char(out, '(');
            if (is_function(word))
                out->len--;
            if (is_function(word))
                str_add(out, word);
            else
                dim_print(t, name->size, out);
            if (!is_function(word))
                str_char(out, ')');
        }
        p += n;
    }
    return NULL;
}

const char *custom_size(DimTable *t, Arena *a, const char *text, const CustomNames *names, Dim *out)
{
    Str s = str_new(a);
    size_t at = 0;
    const char *wrong = put_sizes(t, a, text, names, &s);
    if (wrong != NULL)
        return wrong;
    if (!dim_parse(t, str_text(&s), s.len, DIM_KNOWN_ONLY, out, &at) || dim_is_unknown(t, *out))
        return arena_printf(a, "'%s' is no size: expected names and numbers with + - * floor(a / b) ceil(a / "
                               "b) min max mod",
                            text);
    return NULL;
}

const char *custom_match(DimTable *t, Arena *a, const CustomTensor *tensor, const Shape *s,
                         CustomNames *names)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        Dim want = 0;
        const char *text = tensor->dim[i];
        if (custom_is_name(text) && find_name(names, text) == NULL) {
            const char *full = add_name(a, names, (CustomName){.name = text, .size = s->dim[i]});
            if (full != NULL)
                return full;
            continue;
        }
        const char *wrong = custom_size(t, a, text, names, &want);
        if (wrong != NULL)
            return wrong;
        if (want == s->dim[i])
            continue;
        Str got = str_new(a), must = str_new(a);
        dim_print(t, s->dim[i], &got);
        dim_print(t, want, &must);
        return arena_printf(a, "axis %u of '%s' is %s, expected %s = %s", i, tensor->name, str_text(&got),
                            text, str_text(&must));
    }
    return NULL;
}

// --- text ----------------------------------------------------------------------------------------

// Behind a comment or a quoted text that begins here; p itself where none does. NULL: it does not end.
static const char *skip_quoted(const char *p)
{
    if (p[0] == '/' && p[1] == '/')
        return p + strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end == NULL ? NULL : end + 2;
    }
    if (*p != '"' && *p != '\'')
        return p;
    const char quote = *p++;
    while (*p != '\0' && *p != '\n' && *p != '\r' && *p != quote)
        p += *p == '\\' && p[1] != '\0' ? 2 : 1;
    return *p == quote ? p + 1 : NULL;
}

// Words with which compiling alone reads files or hands text to the assembler, and, in C, all that belong to
// the compiler and the system: headers have macros of such names, which join what they are given into others.
// NVRTC has no such headers, and functions of such names that kernels need.
static bool is_refused_word(AttrId language, const char *p, size_t len)
{
    static const char *const words[] = {"asm",           "__asm",       "__asm__",  "_asm",
                                        "__attribute__", "__attribute", "__pragma", "_Pragma"};
    static const char *const harmless[] = {"_Bool", "_Generic", "_Static_assert", "__restrict",
                                           "__restrict__"};
    static const char builtin[] = "__builtin_";
    const bool is_reserved = len > 1 && p[0] == '_' && (p[1] == '_' || isupper((unsigned char)p[1]));
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == len && memcmp(words[i], p, len) == 0)
            return true;
    for (uint32_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strlen(harmless[i]) == len && memcmp(harmless[i], p, len) == 0)
            return false;
    return is_reserved && language != A_custom_cuda && strncmp(p, builtin, sizeof builtin - 1) != 0;
}

// `[[` begins an attribute, whose text may reach the assembler, too; `<:` is another spelling of `[`.
static bool is_attribute(const char *p, char before)
{
    return (*p == '[' && before == '[') || (p[0] == '<' && p[1] == ':' && p[2] != ':');
}

// What makes compilers disagree where comments, quoted texts and lines end: returns that end a line for some
// of them, and another spelling of the backslash (with -std=c99).
static const char *find_mark(const char *text)
{
    for (const char *p = strchr(text, '\r'); p != NULL; p = strchr(p + 1, '\r'))
        if (p[1] != '\n')
            return "a carriage return without a line feed";
    return strstr(text, "?\?/") != NULL ? "'?\?/'" : NULL;
}

// Also with blanks behind the backslash, as gcc has it.
static bool joins_lines(const char *text)
{
    for (const char *p = strchr(text, '\\'); p != NULL; p = strchr(p + 1, '\\')) {
        const char end = p[1 + strspn(p + 1, " \t\v\f")];
        if (end == '\n' || end == '\r')
            return true;
    }
    return false;
}

static size_t word_len(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_')
        n++;
    return n;
}

// Checks a character that is in no word, no comment and no quoted text. depth: of braces.
static const char *check_mark(Arena *a, const char *p, char before, int *depth)
{
    if (*p == '#' || (p[0] == '%' && p[1] == ':') || (p[0] == '?' && p[1] == '?'))
        return arena_printf(a, "directives (#include, #define ...) are not allowed in it");
    if (is_attribute(p, before))
        return arena_printf(a, "attributes are not allowed in it");
    if ((p[0] == '<' && p[1] == '%') || (p[0] == '%' && p[1] == '>')) // other spellings of braces
        return arena_printf(a, "'%.2s' is not allowed in it", p);
    *depth += *p == '{' ? 1 : *p == '}' ? -1 : 0;
    return *depth < 0 ? arena_printf(a, "a } closes what it did not open") : NULL;
}

// Checks a word that begins at p.
static const char *check_word(Arena *a, AttrId language, const char *p, size_t n)
{
    if (isdigit((unsigned char)*p) && p[n] == '\'') // newer languages go on with the number, others quote
        return arena_printf(a, "a ' in a number is not allowed in it");
    if (is_refused_word(language, p, n) || (p[n - 1] == 'R' && p[n] == '"')) // that, or a raw string
        return arena_printf(a, "'%.*s' is not allowed in it", (int)n, p);
    return NULL;
}

const char *custom_check_text(Arena *a, AttrId language, const char *text)
{
    int depth = 0;
    char before = '\0'; // the last character that is no blank
    const char *mark = find_mark(text);
    if (mark != NULL)
        return arena_printf(a, "%s is not allowed in it", mark);
    if (joins_lines(text))
        return arena_printf(a, "a line ends with \\, which would join it with the next one");
    for (const char *p = text; *p != '\0';) {
        const char *next = skip_quoted(p);
        if (next == NULL)
            return arena_printf(a, "a comment or a quoted text does not end");
        if (next != p) {
            p = next;
            continue;
        }
        const size_t n = word_len(p);
        const char *wrong = n > 0 ? check_word(a, language, p, n) : check_mark(a, p, before, &depth);
        if (wrong != NULL)
            return wrong;
        before = isspace((unsigned char)*p) ? before : *p;
        p += n > 0 ? n : 1;
    }
    return depth == 0 ? NULL : arena_printf(a, "a { is not closed");
}

AttrId custom_text_attr(const char *target)
{
    static const struct {
        const char *target;
        AttrId id;
    } texts[] = {{"c", A_custom_c},
                 {"cuda", A_custom_cuda},
                 {"vulkan", A_custom_glsl},
                 {"metal", A_custom_msl}};
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].target, target) == 0)
            return texts[i].id;
    return ATTR_COUNT;
}

// --- a node --------------------------------------------------------------------------------------

static const char *string_of(const AttrVal *attr, AttrId id)
{
    while (attr->id != id)
        attr++;
    return attr->u.str;
}

static const char *check_distinct(Arena *a, const CustomOp *op)
{
    const CustomTensors *lists[] = {&op->operands, &op->results, &op->scratch};
    Map seen = {0};
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < lists[k]->n; i++)
            if (!map_put_str(a, &seen, lists[k]->at[i].name, 1))
                return arena_printf(a, "the name '%s' stands twice", lists[k]->at[i].name);
    for (uint32_t i = 0; i < op->names.n; i++)
        if (!map_put_str(a, &seen, op->names.at[i].name, 1))
            return arena_printf(a, "the name '%s' stands twice", op->names.at[i].name);
    return NULL;
}

static const char *match_all(DimTable *t, Arena *a, uint32_t n_src, const TensorType *types, CustomOp *op)
{
    if (n_src != op->operands.n)
        return arena_printf(a, "it takes %u operands, not %u", op->operands.n, n_src);
    for (uint32_t i = 0; i < n_src; i++) {
        const CustomTensor *x = &op->operands.at[i];
        if (types[i].dtype != x->dtype)
            return arena_printf(a, "operand '%s' must be %s, not %s", x->name, dtype_info[x->dtype].name,
                                dtype_info[types[i].dtype].name);
        if (types[i].shape.rank != x->rank)
            return arena_printf(a, "operand '%s' must have %u axes, not %u", x->name, x->rank,
                                types[i].shape.rank);
        const char *wrong = custom_match(t, a, x, &types[i].shape, &op->names);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

const char *custom_read(DimTable *t, Arena *a, const AttrVal *attr, uint32_t n_src, const TensorType *types,
                        CustomOp *out)
{
    static const AttrId texts[] = {A_custom_c, A_custom_cuda, A_custom_glsl, A_custom_msl};
    const char *function = string_of(attr, A_custom_function), *wrong = NULL;
    *out = (CustomOp){0};
    if (!custom_is_name(function))
        return bad_name(a, function);
    if ((wrong = custom_read_tensors(a, string_of(attr, A_custom_operands), &out->operands)) != NULL ||
        (wrong = custom_read_tensors(a, string_of(attr, A_custom_results), &out->results)) != NULL ||
        (wrong = custom_read_tensors(a, string_of(attr, A_custom_scratch), &out->scratch)) != NULL ||
        (wrong = custom_read_constants(a, string_of(attr, A_custom_constants), &out->names)) != NULL)
        return wrong;
    if (out->operands.n + out->results.n + out->scratch.n > CUSTOM_MAX_TENSORS || out->results.n == 0)
        return arena_printf(a, "it needs a result, and at most %d tensors", CUSTOM_MAX_TENSORS);
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((wrong = custom_check_text(a, texts[i], string_of(attr, texts[i]))) != NULL)
            return arena_printf(a, "text of '%s': %s", attr_info[texts[i]].name, wrong);
    if ((wrong = match_all(t, a, n_src, types, out)) != NULL ||
        (wrong = custom_size(t, a, string_of(attr, A_custom_elements), &out->names, &out->elements)) != NULL)
        return wrong;
    return check_distinct(a, out);
}
