// SPDX-License-Identifier: Apache-2.0
// Group kernels: their builders, and what must hold for them. See kernel.h.
#include "ir/kernel/kernel_group.h"

enum { MIN_GROUP = 32, MAX_GROUP = 1024, FETCH_BYTES = 16 };

static bool is_power_of_two(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

void k_set_group(Kernel *k, uint32_t threads)
{
    rlx_assert(threads >= MIN_GROUP && threads <= MAX_GROUP && threads % MIN_GROUP == 0);
    k->group = (uint16_t)threads;
}

KRef k_for_group(Kernel *k, int64_t n, const char *name_hint)
{
    rlx_assert(k->group != 0);
    rlx_assert(n >= 0);
    return k_for(k, k_index(k, 0), k_index(k, n), 1, KFOR_GROUP, name_hint);
}

KRef k_thread(Kernel *k)
{
    return k_append(k, &(KInst){.kind = KI_thread, .dtype = KT_INDEX, .lanes = 1});
}

KRef k_shared(Kernel *k, int type, int64_t n)
{
    rlx_assert(n > 0 && k->group != 0);
    return kernel_push(
        k,
        &(KInst){.kind = KI_array, .dtype = (uint8_t)type, .lanes = 1, .flags = KARRAY_SHARED, .imm = n});
}

KRef k_team(Kernel *k, KOp op, KRef v, uint32_t width)
{
    const KInst n = *k_inst(k, v);
    rlx_assert(n.lanes == 1 && is_power_of_two(width) && width <= k->group);
    if (width == 1)
        return v;
    return kernel_push(
        k,
        &(KInst){
            .kind = KI_team, .kop = (uint8_t)op, .dtype = n.dtype, .lanes = 1, .a = v, .imm = width});
}

uint8_t k_fetch_width(int type)
{
    const bool is_packed = type == DTYPE_i4 || type == DTYPE_u4 || type == DTYPE_i2 || type == DTYPE_u2;
    return type == KT_INDEX || is_packed ? 0 : (uint8_t)(FETCH_BYTES / dtype_info[type].bytes);
}

static void push_wide(Kernel *k, KKind kind, uint32_t param, KInst n)
{
    n.a = kernel_index(k, param, n.a);
    n.kind = (uint8_t)kind;
    n.dtype = (uint8_t)k->params.data[param].dtype;
    n.lanes = 1;
    n.imm = param;
    rlx_assert(k_inst(k, n.b)->kind == KI_array && k_inst(k, n.b)->dtype == n.dtype);
    rlx_assert(is_power_of_two(n.count) && n.count <= k_fetch_width(n.dtype));
    kernel_push(k, &n);
}

void k_fetch(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n)
{
    push_wide(k, KI_fetch, param, (KInst){.count = n, .a = index, .b = array, .c = at});
}

void k_fetch_once(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n)
{
    push_wide(k, KI_fetch, param,
              (KInst){.count = n, .flags = KWIDE_ONCE, .a = index, .b = array, .c = at});
}

void k_put(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n)
{
    push_wide(k, KI_put, param, (KInst){.count = n, .a = index, .b = array, .c = at});
}

void k_put_once(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n)
{
    push_wide(k, KI_put, param, (KInst){.count = n, .flags = KWIDE_ONCE, .a = index, .b = array, .c = at});
}

// --- what must hold ------------------------------------------------------------------------------

static const char *wrong_wide(const Kernel *k, const KInst *n)
{
    int64_t at = 0;
    const KInst *array = k_inst(k, n->b);
    const KParam *p = &k->params.data[n->imm];
    if ((int)p->dtype != n->dtype || array->dtype != n->dtype)
        return "types of parameter and array differ";
    if (!is_power_of_two(n->count) || n->count > k_fetch_width(n->dtype))
        return "not a number of elements that one access moves";
    return k_is_const(k, n->c, &at) && (at < 0 || at + n->count > array->imm) ? "outside of the array" : NULL;
}

const char *kernel_wrong_group(const Kernel *k, const KInst *n)
{
    int64_t unused = 0;
    const bool is_for = n->kind == KI_for && n->flags == KFOR_GROUP,
               is_shared = n->kind == KI_array && n->flags == KARRAY_SHARED;
    if ((is_for || is_shared || n->kind == KI_thread || n->kind == KI_team) && k->group == 0)
        return "a kernel without groups";
    if (is_for && (!k_is_const(k, n->a, &unused) || !k_is_const(k, n->b, &unused)))
        return "a loop over groups without constant bounds";
    if (n->kind == KI_team && (!is_power_of_two((uint64_t)n->imm) || n->imm < 2 || k->group % n->imm != 0))
        return "not a width of a team";
    return n->kind == KI_fetch || n->kind == KI_put ? wrong_wide(k, n) : NULL;
}
