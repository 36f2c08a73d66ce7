// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: what a call that failed was about, as a sentence. In the headers of models that are compiled
// with --api full. No allocation: the memory is the caller's; a program that does not ask for sentences has
// no code for them.
#ifndef RLX_ERRORS_H
#define RLX_ERRORS_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

// From now on calls on the context that fail leave in `error`, which must stay where it is, what they are
// about: the last one counts, and calls that succeed change nothing. Of a run that was committed it is there
// once that is known to have failed, and again after rlx_sync, whatever has failed in between. NULL: no more.
// Of a clone, or a context that was made again, it is not set.
static inline rlx_status rlx_set_error(rlx_ctx *ctx, rlx_error *error)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (error != NULL)
        memset(error, 0, sizeof *error);
    ctx->error = error;
    return RLX_OK;
}

// Element types as the compiler calls them.
static inline const char *rlx_dtype_text(rlx_dtype t)
{
    static const char *const text[] = {
        "f32", "f16",  "bf16", "f64",       "i64",         "i32",     "i16",         "i8",
        "u64", "u32",  "u16",  "u8",        "bool",        "f8e4m3fn", "f8e4m3fnuz", "f8e5m2",
        "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2", "u2"};
    return (unsigned)t <= (unsigned)RLX_U2 ? text[t] : "no type";
}

// Appends a text, or a number, to e->text, of which `at` characters are written; returns how many are then.
static inline size_t rlx_say(rlx_error *e, size_t at, const char *text)
{
    size_t i;
    for (i = 0; text[i] != '\0' && at + 1u < sizeof e->text; i++, at++)
        e->text[at] = text[i];
    e->text[at] = '\0';
    return at;
}

static inline size_t rlx_say_number(rlx_error *e, size_t at, int64_t value)
{
    char digits[21]; // of 2^64 at most
    uint64_t rest = value < 0 ? ~(uint64_t)value + 1u : (uint64_t)value;
    size_t i, first = sizeof digits - 2u;
    digits[sizeof digits - 1u] = '\0';
    for (i = 0; i + 1u < sizeof digits; i++, rest /= 10u) {
        digits[sizeof digits - 2u - i] = (char)('0' + (int)(rest % 10u));
        first = rest != 0 ? sizeof digits - 2u - i : first;
    }
    return rlx_say(e, value < 0 ? rlx_say(e, at, "-") : at, digits + first);
}

// What a sentence begins with, and by status the rest: %a what it is about, %e and %f the numbers that were
// expected and found, %t and %g as element types, %m the condition of the model,
// %l what a symbol can be.
static inline const char *rlx_error_pattern(const rlx_error *e)
{
    static const char *const text[RLX_STATUS_COUNT] = {
        "",
        "%a: a null pointer",
        "%a: %e bytes are needed, %f given",
        "%a: memory that does not start at a multiple of 64 bytes",
        "%a: not those that the model was compiled with",
        "the model has no %a",
        "%a: number %f, but the model has %e",
        "%a: %e bytes or elements were expected, %f given",
        "%a: element type %t was expected, %g given",
        "%a was never set: rlx_set_param",
        "a condition of the model does not hold: %m",
        "the CPU or the system lacks what the code was compiled for",
        "%a: %f is out of range, the limit is %e%l",
        "%a: number %f, but the model has %e",
        "the model has no %a",
        "no driver, or no device that can run the code",
        "the device failed, or has too little memory",
        "%a was not given: a run needs every input",
        "%a: no run has ended well, or the last one failed",
        "%a: the blocks overlap others that are in use",
        "%a is for what the model was compiled without"};
    if (e->status == RLX_ERR_NULL && e->found != 0)
        return "the model has no layers of experts";
    if (e->status == RLX_ERR_WEIGHTS && e->about == RLX_ABOUT_CALL)
        return "the experts have no place: rlx_set_moe_source, and rlx_set_moe_pool before rlx_moe_load";
    if (e->status == RLX_ERR_WEIGHTS && e->expected != e->found)
        return "%a: %e bytes were expected, %f given";
    if (e->status == RLX_ERR_SIZE && e->found < 0)
        return "%a: parts of an output need a handle of the output's shape";
    if (e->message != NULL)
        return text[RLX_ERR_VALUE];
    if (e->status == RLX_ERR_NAME && e->found > 1)
        return "%a was given more than once";
    if (e->status == RLX_ERR_VALUE && e->found != 0)
        return "%a needs a model that was compiled with --profile";
    if (e->status == RLX_ERR_INPUT && e->found > 1)
        return "%a: its rows are being computed by another call";
    if (e->status == RLX_ERR_INPUT && e->found != 0)
        return "%a was consumed by the run before: write all inputs again";
    if (e->status == RLX_ERR_SLOT && e->about == RLX_ABOUT_LAYER)
        return "%a takes no slots: its weights are no constants";
    if (e->status == RLX_ERR_HANDLE && e->found > 1)
        return "%a is given by a handle: rlx_unlink_input";
    if (e->status == RLX_ERR_HANDLE && e->found != 0)
        return "%a has no value yet: rlx_bind_handle";
    return (unsigned)e->status < (unsigned)RLX_STATUS_COUNT ? text[e->status] : "unknown status";
}

static inline size_t rlx_say_subject(rlx_error *e, size_t at)
{
    static const char *const kinds[RLX_SUBJECTS] = {
        "the call", "input", "output", "parameter", "state", "handle", "symbol", "set of outputs",
        "the arena block", "the state block", "the weights", "the experts", "the pool of experts",
        "the mask of experts", "layer of experts", "expert", "slot of experts"};
    at = rlx_say(e, at, (unsigned)e->about < (unsigned)RLX_SUBJECTS ? kinds[e->about] : kinds[0]);
    if (e->name[0] == '\0')
        return at;
    at = rlx_say(e, at, " '");
    at = rlx_say(e, at, e->name);
    return rlx_say(e, at, "'");
}

static inline size_t rlx_say_limits(const rlx_ctx *ctx, rlx_error *e, size_t at)
{
    const rlx_symbols *all = ctx->model == NULL ? NULL : ctx->model->symbols;
    uint32_t i;
    for (i = 0; e->about == RLX_ABOUT_SYMBOL && all != NULL && i < all->n; i++) {
        if (strcmp(all->list[i].name, e->name) != 0)
            continue;
        at = rlx_say_number(e, rlx_say(e, at, " (it goes from "), all->list[i].min);
        at = rlx_say_number(e, rlx_say(e, at, " to "), all->list[i].max);
        at = rlx_say_number(e, rlx_say(e, at, " in steps of "), all->list[i].multiple);
        at = rlx_say(e, at, ")");
    }
    return at;
}

static inline size_t rlx_say_part(const rlx_ctx *ctx, rlx_error *e, size_t at, char what)
{
    if (what == 'a')
        return rlx_say_subject(e, at);
    if (what == 'e' || what == 'f')
        return rlx_say_number(e, at, what == 'e' ? e->expected : e->found);
    if (what == 't' || what == 'g')
        return rlx_say(e, at, rlx_dtype_text((rlx_dtype)(what == 't' ? e->expected : e->found)));
    if (what == 'l')
        return rlx_say_limits(ctx, e, at);
    return rlx_say(e, at, e->message != NULL ? e->message : "it is not known which");
}

// A sentence for the last call on the context that failed, in the memory of rlx_set_error: which input,
// output, parameter, state, handle or symbol it is about, what was expected, and what was found. Empty where
// none has failed, or no memory was given. Names longer than 47 bytes are cut.
static inline const char *rlx_error_text(const rlx_ctx *ctx)
{
    rlx_error *const e = ctx == NULL ? NULL : ctx->error;
    const char *pattern;
    char one[2] = {0, 0};
    size_t at = 0, i;
    if (e == NULL)
        return "";
    e->text[0] = '\0';
    pattern = rlx_error_pattern(e);
    for (i = 0; pattern[i] != '\0' && i < sizeof e->text; i++) {
        one[0] = pattern[i];
        if (i != 0 && pattern[i - 1u] == '%')
            at = rlx_say_part(ctx, e, at, one[0]);
        else if (one[0] != '%')
            at = rlx_say(e, at, one);
    }
    return e->text;
}

// A sentence for a status that rlx_init has given, in e->text: for the same arguments (those of NAME_init,
// and NULL and 0 for the weights).
static inline const char *rlx_init_text(rlx_status status, const rlx_model *model, const void *arena,
                                        size_t arena_bytes, const void *state, size_t state_bytes,
                                        const void *weights, size_t weight_bytes, rlx_error *e)
{
    rlx_ctx said;
    if (e == NULL)
        return "";
    memset(e, 0, sizeof *e);
    memset(&said, 0, sizeof said);
    said.error = e;
    if (status != RLX_OK)
        (void)rlx_check_init(model, arena, arena_bytes, state, state_bytes, weights, weight_bytes, e);
    if (e->status != status)
        (void)rlx_tell(e, status, RLX_ABOUT_WEIGHTS, NULL, 0, 0); // of a device, or of all weights
    return rlx_error_text(&said);
}

#ifdef __cplusplus
}
#endif

#endif
