// SPDX-License-Identifier: Apache-2.0
// Handles that the program makes (lockstep_test.c): `sub` has them, and for `ref` this file does what they
// mean.
#ifndef TESTS_LOCKSTEP_OWN_H
#define TESTS_LOCKSTEP_OWN_H

#include "lockstep.h"

typedef struct Own {
    int is_made;
    char name[8];
    rlx_handle handle;
    void *memory, *mirror;
    int has_value, is_output;
    uint32_t like, input, output;
    rlx_dtype dtype;
    int rank;
    int64_t shape[RLX_MAX_RANK];
} Own;

static Own own[MAX_OWN];

static Own *giver(uint32_t input)
{
    int i;
    for (i = 0; i < MAX_OWN; i++)
        if (own[i].is_made && own[i].input == input)
            return &own[i];
    return NULL;
}

static size_t own_bytes(const Own *o)
{
    return count_of(o->shape, o->rank) * rlx_dtype_bytes(o->dtype);
}

static void compare_own(void)
{
    int i;
    int64_t shape[RLX_MAX_RANK];
    for (i = 0; i < MAX_OWN; i++) {
        Own *o = &own[i];
        void *p;
        if (!o->is_made)
            continue;
        agree("has_handle", o->name, rlx_has_handle(&sub.ctx, o->name), o->has_value);
        if (!o->has_value)
            continue;
        agree("handle_shape", o->name, rlx_handle_shape(&sub.ctx, o->name, shape), RLX_OK);
        agree("handle_shape", o->name, memcmp(shape, o->shape, (size_t)o->rank * sizeof *shape), 0);
        p = room(own_bytes(o));
        agree("read_handle", o->name, rlx_read_handle(&sub.ctx, o->name, p, own_bytes(o)), RLX_OK);
        compare_values("handle", o->name, o->dtype, p, o->mirror, count_of(o->shape, o->rank));
        free(p);
    }
}

static void drop_own(Own *o)
{
    agree("drop", o->name, rlx_drop_handle(&sub.ctx, o->name), RLX_OK);
    free(o->memory), free(o->mirror);
    o->is_made = 0;
}

static void forget_own(void)
{
    int i;
    for (i = 0; i < MAX_OWN; i++)
        if (own[i].is_made)
            free(own[i].memory), free(own[i].mirror), own[i].is_made = 0;
}

static const rlx_tensor *output_tensor(const rlx_model *m, uint32_t slot)
{
    return slot < m->n_outputs ? &m->outputs[slot] : &m->held[slot - m->n_outputs];
}

static void make_own(Own *o)
{
    const rlx_model *m = largest(sub.ctx.model);
    const rlx_tensor *t;
    size_t bytes;
    rlx_status status;
    o->is_output = m->n_inputs == 0 || pick(2) == 0;
    o->like = (uint32_t)pick(o->is_output ? (int64_t)output_count() : m->n_inputs);
    t = o->is_output ? output_tensor(m, o->like) : &m->inputs[o->like];
    bytes = rlx_handle_room(&sub.ctx, t->name);
    snprintf(o->name, sizeof o->name, "own%d", (int)(o - own));
    o->memory = room(bytes);
    o->mirror = room(bytes);
    o->dtype = t->dtype, o->rank = t->rank, o->has_value = 0;
    o->input = o->output = RLX_NO_SLOT;
    status = rlx_make_handle(&sub.ctx, &o->handle, o->name, t->name, o->memory, bytes);
    o->is_made = status == RLX_OK;
    agree("make_handle", t->name, status, RLX_OK);
    if (!o->is_made)
        free(o->memory), free(o->mirror);
}

// A value of the shape that the input has now.
static void bind_own(Own *o)
{
    size_t n;
    if (o->is_output)
        return;
    rlx_input_shape(&ref.ctx, o->like, o->shape);
    n = count_of(o->shape, o->rank);
    fill(o->mirror, o->dtype, n);
    agree("bind own", o->name,
          rlx_bind_handle(&sub.ctx, o->name, o->mirror, n * rlx_dtype_bytes(o->dtype)), RLX_OK);
    o->has_value = 1;
}

static void link_own(Own *o)
{
    const uint32_t n = sub.ctx.model->n_inputs, slot = n == 0 ? 0 : (uint32_t)pick(n);
    Own *before;
    if (n == 0 || rlx_link_input(&sub.ctx, slot, o->name) != RLX_OK)
        return;
    before = giver(slot);
    if (before != NULL)
        before->input = RLX_NO_SLOT;
    o->input = slot;
}

static void step_own(void)
{
    Own *o = &own[pick(MAX_OWN)];
    const uint32_t slot = (uint32_t)pick((int64_t)output_count());
    doing = "own";
    if (!o->is_made) {
        make_own(o);
        return;
    }
    switch (pick(6)) {
    case 0:
        drop_own(o);
        break;
    case 1:
        bind_own(o);
        break;
    case 2:
        link_own(o);
        break;
    case 3:
        if (rlx_link_output(&sub.ctx, slot, o->name) == RLX_OK)
            o->output = slot;
        break;
    case 4:
        agree("unlink", o->name, rlx_unlink_input(&sub.ctx, o->name), RLX_OK);
        o->input = RLX_NO_SLOT;
        break;
    default:
        agree("unlink", o->name, rlx_unlink_output(&sub.ctx, o->name), RLX_OK);
        o->output = RLX_NO_SLOT;
    }
}

#endif
