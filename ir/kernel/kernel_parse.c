// SPDX-License-Identifier: Apache-2.0
// Reads the listing of a kernel (kernel_text.c), line by line, by the forms of kinds.def. Numbers are checked
// before they become instructions, parameters or sizes; what the instructions must fulfil beyond that is for
// kernel_verify.
#include "ir/kernel/kernel_parse.h"
#include "ir/kernel/kernel_fold.h"
#include "ir/kernel/kernel_parser.h"
#include "ir/kernel/kernel_words.h"

#include <string.h>

// --- operands ------------------------------------------------------------------------------------

static KRef push(Parser *p, const KInst *n)
{
    // Constants and the like are as often there as the text has them.
    const bool is_pure = kkind_info[n->kind].cls == KIND_PURE;
    const KRef r = is_pure ? kernel_push(p->k, n) : k_append(p->k, n);
    while (p->line.len <= r)
        vec_push(p->l.arena, &p->line, (uint32_t)p->l.at);
    return r;
}

static bool constant_type(Parser *p, int *type)
{
    uint8_t lanes = 1;
    if (!lex_take(&p->l, ":"))
        return true;
    lex_skip(&p->l);
    const size_t begin = p->l.at;
    return kp_take_type(p, type, &lanes) &&
           (lanes == 1 || lex_fail(&p->l, begin, E0107, "a constant has one lane"));
}

static bool take_constant(Parser *p, int type, KRef *out)
{
    lex_skip(&p->l);
    const size_t begin = p->l.at, n = kp_number_end(&p->l) - begin;
    KInst c = {.kind = KI_const, .lanes = 1};
    double v = 0;
    p->l.at += n;
    if (n == 0)
        return lex_fail(&p->l, begin, E0107, "expected a value: %%1, or a constant");
    if (!constant_type(p, &type))
        return false;
    c.dtype = (uint8_t)type;
    if (kt_is_float(type)) {
        if (!str_parse_f64(p->l.text + begin, n, &v))
            return lex_fail(&p->l, begin, E0107, "expected a constant of %s", kt_name(type));
        memcpy(&c.imm, &v, sizeof v);
    } else if (!str_parse_i64(p->l.text + begin, n, &c.imm) || kt_wrap(type, c.imm) != c.imm) {
        return lex_fail(&p->l, begin, E0107, "expected a constant of %s", kt_name(type));
    }
    *out = push(p, &c);
    return true;
}

static bool take_value(Parser *p, int type, KRef *out)
{
    int64_t number = 0;
    if (!lex_take(&p->l, "%"))
        return take_constant(p, type, out);
    if (p->values.len == 0)
        return kp_fail_here(p, "a constant: no value comes before");
    if (!kp_take_int(p, "the number of a value", 1, p->values.len, &number))
        return false;
    *out = p->values.data[number - 1];
    return true;
}

// What the instruction has of a variable, an array or the value that is stored.
static void adopt(Parser *p, KInst *n, char role, KRef r)
{
    const KInst *o = k_inst(p->k, r);
    if (role == 'V' || role == 'A') {
        p->type = n->dtype = p->is_typed ? n->dtype : o->dtype;
        n->lanes = p->is_typed || role == 'A' ? n->lanes : o->lanes;
    }
    if ((role == 'v' || role == 'f') && !p->is_typed)
        n->lanes = o->lanes;
}

static char role_of(const KInst *n, uint32_t i)
{
    const char *roles = n->kind == KI_matrix ? kmatrix_roles[n->kop] : kkind_info[n->kind].operands;
    return i < strlen(roles) ? roles[i] : '*';
}

static bool take_operand(Parser *p, KInst *n, uint32_t i)
{
    KRef *const to[3] = {&n->a, &n->b, &n->c};
    if (!take_value(p, kernel_operand_type(n, p->type, i), to[i]))
        return false;
    if (n->kind != KI_call)
        adopt(p, n, role_of(n, i), *to[i]);
    return true;
}

// --- letters of forms (kinds.def) ----------------------------------------------------------------

static bool parse_refs(Parser *p, KInst *n)
{
    for (uint32_t i = 0; i < kernel_operand_count(n); i++)
        if (!take_operand(p, n, i))
            return false;
    return true;
}

static bool parse_list(Parser *p, KInst *n)
{
    const uint32_t count = kernel_operand_count(n);
    KRef *const to[3] = {&n->a, &n->b, &n->c};
    KRef r[KDEV_MAX_OPERANDS + 1] = {0};
    for (uint32_t i = 0; i < count; i++)
        if (!take_value(p, kernel_operand_type(n, p->type, i), &r[i]))
            return false;
    for (uint32_t i = 0; i < count; i += 3) {
        const KInst part = {
            .kind = KI_list, .dtype = KT_INDEX, .lanes = 1, .a = r[i], .b = r[i + 1], .c = r[i + 2]};
        *to[i / 3] = push(p, &part);
    }
    return true;
}

static bool parse_device(Parser *p, KInst *n)
{
    static const char *const names[KDEV_COUNT] = {
#define DEVICE(name, ...) [KDEV_##name] = #name,
#include "ir/kernel/device.def"
#undef DEVICE
    };
    uint32_t f = 0;
    int64_t constant = 0;
    if (!kp_take_of(p, "a device function", names, KDEV_COUNT, &f))
        return false;
    const KDeviceInfo *info = &device_info[f];
    if ((info->result == KDEV_VOID) != (n->kind == KI_device))
        return kp_fail_here(p, n->kind == KI_device ? "one without a value" : "one with a value");
    if (info->constant != KDEV_NONE &&
        (!lex_expect(&p->l, "<") || !kp_take_int(p, "a constant", 0, INT32_MAX, &constant) ||
         !lex_expect(&p->l, ">")))
        return false;
    n->imm = constant * 256 + f;
    if (n->kind == KI_device)
        return parse_list(p, n);
    n->dtype = (uint8_t)info->result;
    return parse_refs(p, n);
}

static bool parse_param(Parser *p, KInst *n)
{
    const char *name = NULL;
    int64_t at = 0;
    lex_skip(&p->l);
    const size_t begin = p->l.at;
    if (!kp_take_name(p, "a parameter", &name))
        return false;
    const uint32_t count = p->k->params.len;
    if (count > 0 && lex_take(&p->l, "@") && !kp_take_int(p, "its position", 0, count - 1, &at))
        return false;
    while (at < count && !str_equal(p->k->params.data[at].name, name))
        at++;
    if (at == count)
        return lex_fail(&p->l, begin, E0103, "no parameter '%s'", name);
    n->imm = at;
    if (!p->is_typed)
        p->type = n->dtype = (uint8_t)p->k->params.data[at].dtype;
    return true;
}

static bool parse_register(Parser *p, uint8_t *out)
{
    int64_t v = 0;
    if (!lex_expect(&p->l, "r") || !kp_take_int(p, "a register", 0, 7, &v))
        return false;
    *out = (uint8_t)v;
    return true;
}

static bool parse_matrix(Parser *p, KInst *n)
{
    uint32_t op = 0;
    uint8_t x = 0, y = 0, lanes = 1;
    if (!kp_take_of(p, "a statement on matrix registers", kmatrix_words, KMATRIX_COUNT, &op))
        return false;
    n->kop = (uint8_t)op;
    p->type = op == KMATRIX_begin || op == KMATRIX_end ? DTYPE_bf16 : DTYPE_f32;
    if (op == KMATRIX_mac && !kp_take_type(p, &p->type, &lanes))
        return false;
    n->dtype = (uint8_t)p->type;
    if (kmatrix_has_register(n->kop) && !parse_register(p, &n->count))
        return false;
    if (op == KMATRIX_mac && (!parse_register(p, &x) || !parse_register(p, &y)))
        return false;
    n->flags = (uint8_t)(x | y << 4);
    return !kmatrix_has_param(n->kop) || parse_param(p, n);
}

static bool parse_kop(Parser *p, KInst *n)
{
    lex_skip(&p->l);
    const size_t begin = p->l.at;
    const char *word = lex_take_word(&p->l);
    KOp op = KOP_add;
    if (word == NULL || !kop_parse(word, strlen(word), &op))
        return lex_fail(&p->l, begin, E0107, "expected an operation");
    n->kop = (uint8_t)op;
    return true;
}

static bool parse_listed_type(Parser *p, KInst *n)
{
    const bool is_test = n->kind == KI_op && kop_info[n->kop].cls == KCLASS_CMP;
    if (!kp_take_type(p, &p->type, &n->lanes))
        return false;
    n->dtype = is_test ? (uint8_t)DTYPE_bool : (uint8_t)p->type;
    p->is_typed = true;
    return true;
}

static bool parse_a(Parser *p, KInst *n)
{
    return take_operand(p, n, 0);
}

static bool parse_b(Parser *p, KInst *n)
{
    return take_operand(p, n, 1);
}

static bool parse_imm(Parser *p, KInst *n)
{
    return kp_take_int(p, "a size", 1, INT64_MAX, &n->imm);
}

static bool parse_count(Parser *p, KInst *n)
{
    int64_t v = 0;
    if (!kp_take_int(p, "a number of elements", 1, KP_MAX_LANES, &v))
        return false;
    n->count = (uint8_t)v;
    return true;
}

static bool parse_active(Parser *p, KInst *n)
{
    return !kp_take_word(p, "count") || parse_count(p, n);
}

static bool parse_hint(Parser *p, KInst *n)
{
    return !lex_at(&p->l, '"') || lex_string(&p->l, "a name", &n->text);
}

static bool parse_flags(Parser *p, KInst *n)
{
    if (n->kind != KI_for) {
        n->flags = kp_take_word(p, n->kind == KI_array ? "shared" : "once");
        return true;
    }
    for (uint8_t i = 1; i < KLOOP_WORDS; i++)
        if (kp_take_word(p, kloop_words[i]))
            n->flags = i;
    return true;
}

static bool parse_function(Parser *p, KInst *n)
{
    const char *name = NULL;
    (void)n;
    if (!kp_take_name(p, "a function", &name))
        return false;
    return (p->k->custom != NULL && str_equal(p->k->custom->function, name)) ||
           kp_fail_here(p, "the function whose text the kernel has, before this");
}

// A letter whose word said already what the instruction is.
static bool parse_nothing(Parser *p, KInst *n)
{
    (void)p, (void)n;
    return true;
}

static bool parse_mark(Parser *p, const char **form)
{
    const size_t n = strcspn(*form, " $");
    const char *mark = arena_strndup(p->l.arena, *form, n);
    *form += n;
    return lex_expect(&p->l, mark);
}

static bool parse_form(Parser *p, KInst *n, const char *form)
{
    static bool (*const letters[])(Parser *, KInst *) = {
        ['a'] = parse_a,      ['b'] = parse_b,       ['c'] = parse_active,      ['d'] = parse_device,
        ['f'] = parse_flags,  ['h'] = parse_nothing, ['i'] = parse_imm,         ['k'] = parse_nothing,
        ['m'] = parse_matrix, ['n'] = parse_count,   ['o'] = parse_kop,         ['p'] = parse_param,
        ['r'] = parse_refs,   ['s'] = parse_nothing, ['t'] = parse_listed_type, ['u'] = parse_function,
        ['x'] = parse_hint};
    while (*form != '\0') {
        if (*form == ' ') {
            form++;
        } else if (*form == '$') {
            if (!letters[(unsigned char)form[1]](p, n))
                return false;
            form += 2;
        } else if (!parse_mark(p, &form)) {
            return false;
        }
    }
    return true;
}

// --- lines ---------------------------------------------------------------------------------------

// Types that no line names.
static int own_type(uint8_t kind)
{
    switch (kind) {
    case KI_part:
    case KI_thread:
    case KI_since:
    case KI_for:
        return KT_INDEX;
    case KI_point:
        return DTYPE_u64;
    case KI_custom:
        return 0;
    default:
        return DTYPE_bool;
    }
}

static bool is_kind_word(uint8_t kind, const char *word, bool has_number)
{
    const KKindInfo *info = &kkind_info[kind];
    return kind != KI_for && kind != KI_op && kind != KI_comment && info->form[0] != '\0' &&
           kkind_has_number(kind) == has_number && str_equal(info->name, word);
}

// The instruction that a line's first word is of.
static bool find_kind(const char *word, bool has_number, KInst *n)
{
    KOp op = KOP_add;
    for (uint8_t kind = 1; kind < KI_COUNT; kind++)
        if (is_kind_word(kind, word, has_number)) {
            n->kind = kind;
            return kind != KI_zip;
        }
    n->kind = KI_cast;
    for (n->imm = 0; has_number && n->imm < KCAST_WORDS; n->imm++)
        if (str_equal(kcast_words[n->imm], word))
            return true;
    n->kind = KI_zip;
    for (n->imm = 0; has_number && n->imm < KZIP_WORDS; n->imm++)
        if (str_equal(kzip_words[n->imm], word))
            return true;
    n->kind = KI_part;
    n->imm = 1;
    if (has_number && str_equal(word, "parts"))
        return true;
    n->imm = 0;
    n->kind = KI_op;
    const bool is_op = has_number && kop_parse(word, strlen(word), &op);
    n->kop = (uint8_t)op;
    return is_op;
}

// What stands behind a line's first word.
static const char *form_behind(const char *form)
{
    while (*form != '\0' && *form != ' ' && strncmp(form, "$r", 2) != 0)
        form++;
    return form;
}

static void finish(KInst *n)
{
    switch (n->kind) {
    case KI_load:
    case KI_store:
    case KI_prefetch:
        n->count = n->count == 0 ? n->lanes : n->count;
        break;
    case KI_aload:
    case KI_astore:
    case KI_point:
        n->count = n->lanes;
        break;
    default:
        break;
    }
}

static bool parse_rest(Parser *p, KInst *n, const char *form, size_t begin)
{
    if (kkind_closes(n->kind) && p->depth == 0)
        return lex_fail(&p->l, begin, E0107, "no block is open");
    if (!parse_form(p, n, form) || !kp_end_line(p))
        return false;
    finish(n);
    p->depth = (uint32_t)((int)p->depth + kkind_depth(n->kind));
    const KRef r = push(p, n);
    p->line.data[r] = (uint32_t)begin;
    if (kkind_has_number(n->kind))
        vec_push(p->l.arena, &p->values, r);
    return true;
}

static bool parse_number(Parser *p)
{
    int64_t number = 0;
    const int64_t next = (int64_t)p->values.len + 1;
    return lex_expect(&p->l, "%") && kp_take_int(p, "the next number", next, next, &number) &&
           lex_expect(&p->l, "=");
}

static bool parse_comment(Parser *p, size_t begin)
{
    KInst n = {.kind = KI_comment, .dtype = DTYPE_bool, .lanes = 1, .text = lex_take_comment(&p->l)};
    return n.text != NULL ? parse_rest(p, &n, "", begin) : kp_fail_here(p, "a comment without zeros");
}

static bool parse_line(Parser *p)
{
    const size_t begin = p->l.at;
    KInst n = {.lanes = 1};
    if (p->l.text[begin] == '#')
        return parse_comment(p, begin);
    p->is_typed = false;
    const bool is_for = kp_take_word(p, kkind_info[KI_for].name);
    const bool has_number = is_for || lex_at(&p->l, '%');
    if (has_number && !parse_number(p))
        return false;
    lex_skip(&p->l);
    const size_t at = p->l.at;
    const char *word = is_for ? NULL : lex_take_word(&p->l);
    n.kind = KI_for;
    if (!is_for && (word == NULL || !find_kind(word, has_number, &n)))
        return lex_fail(&p->l, at, E0107, "expected an instruction");
    p->type = own_type(n.kind);
    n.dtype = (uint8_t)p->type;
    const char *form = kkind_info[n.kind].form;
    return parse_rest(p, &n, is_for ? form : form_behind(form), begin);
}

Kernel *kernel_parse(Arena *a, Diag *d, uint32_t file)
{
    rlx_assert(file >= 1 && file <= d->files.len);
    const DiagFile *f = &d->files.data[file - 1];
    Parser p = {.l = {.arena = a, .diag = d, .file = file, .text = f->text ? f->text : ""}, .end = f->len};
    KRef at = 0;
    if (f->len >= UINT32_MAX) {
        diag_error(d, (Span){.file = file}, E0004, "the text is longer than 4 GiB");
        return NULL;
    }
    if (!kp_parse_head(&p))
        return NULL;
    while (kp_next_line(&p))
        if (!parse_line(&p))
            return NULL;
    const char *wrong = kernel_verify_at(p.k, &at);
    if (wrong == NULL)
        return p.k;
    lex_fail(&p.l, at < p.line.len ? p.line.data[at] : p.l.at, E0107, "%s", wrong);
    return NULL;
}
