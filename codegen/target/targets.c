// SPDX-License-Identifier: Apache-2.0
// The list of targets, and the questions about them that need only their tables.
#include "codegen/target/target.h"
#include "ir/kernel/kernel_fold.h"
#include "ir/kernel/device.h"

#include <string.h>

static const Target *const targets[] = {
#define TARGET(name) &target_##name,
#include "codegen/target/targets.def"
#undef TARGET
};

const char *const target_names[] = {
#define TARGET(name) #name,
#include "codegen/target/targets.def"
#undef TARGET
    NULL};

const Target *target_find(const char *name)
{
    rlx_assert(name != NULL);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i]->name, name))
            return targets[i];
    return NULL;
}

// A kernel that threads share has a barrier behind it, and what one core wrote another one has to fetch: it
// is shared where it takes several times as long.
static const double barriers_of_split = 20;

TargetCaps target_caps(const Target *t, const CpuInfo *cpu)
{
    rlx_assert(t->caps.is_gpu || cpu != NULL);
    TargetCaps caps = t->caps;
    caps.gpu = gpu_machine_default();
    caps.cpu = caps.is_gpu ? cpu_machines[CPU_MACHINE_plain] : cpu->machine;
    if (caps.is_gpu)
        return caps;
    caps.cpu_name = cpu->name;
    caps.f32_lanes = cpu->f32_lanes;
    caps.vector_regs = cpu->vector_regs;
    caps.has_dot8 = (cpu->features & CPU_DOT8) != 0;
    caps.has_pair8 = (cpu->features & CPU_PAIR8) != 0;
    caps.has_dot16 = (cpu->features & CPU_DOT16) != 0;
    caps.has_dot_bf16 = (cpu->features & CPU_DOT_BF16) != 0;
    caps.has_matrix = (cpu->features & CPU_MATRIX) != 0;
    caps.prefers_ints = (cpu->features & CPU_INTEGERS) != 0;
    caps.has_sat = (cpu->features & CPU_SAT) != 0;
    caps.has_dsp = (cpu->features & CPU_DSP) != 0;
    caps.has_mla = (cpu->features & CPU_MLA) != 0;
    caps.is_narrow = (cpu->features & CPU_NARROW) != 0;
    caps.byte_vectors = (cpu->features & CPU_MVE) != 0   ? BYTE_VECTORS_MVE
                        : (cpu->features & CPU_RVV) != 0 ? BYTE_VECTORS_RVV
                                                         : BYTE_VECTORS_NONE;
    caps.threads = 1;
    caps.split_cycles = (uint32_t)(barriers_of_split * caps.cpu.barrier_cycles);
    return caps;
}

static SpellCol column_of(int type, uint8_t lanes)
{
    if (lanes > 1)
        return type == DTYPE_f32 || k_is_half(type) ? SPELL_VF32
               : type == DTYPE_bool                 ? SPELL_MASK
                                                    : SPELL_VI32;
    if (type == KT_INDEX)
        return SPELL_INDEX;
    if (type == DTYPE_bool)
        return SPELL_BOOL;
    if (type == DTYPE_f64)
        return SPELL_F64;
    return dtype_info[type].cls == DCLASS_FLOAT ? SPELL_F32 : SPELL_INT;
}

const char *target_cast(const Target *t, int from, int to)
{
    const bool is_narrow = from != KT_INDEX && from != DTYPE_bool && !kt_is_float(from) &&
                           dtype_info[from].bytes <= 2;
    return t->widen != NULL && is_narrow && kt_is_float(to) && to != DTYPE_f64 ? t->widen : t->cast;
}

const char *target_spell(const Target *t, KOp op, int type, uint8_t lanes)
{
    rlx_assert(op < KOP_COUNT && type <= KT_INDEX && lanes >= 1);
    const SpellCol col = column_of(type, lanes);
    for (uint32_t i = 0; i < t->n_halves && k_is_half(type) && lanes == 1; i++)
        if (t->halves[i].kop == op)
            return t->halves[i].text;
    for (uint32_t i = 0; i < t->n_overrides; i++)
        if (t->overrides[i].kop == op && t->overrides[i].col == col)
            return t->overrides[i].text;
    return t->spell[op].col[col];
}

static const char *lacks_inst(const Target *t, const Kernel *k, const KInst *n)
{
    rlx_assert(n->dtype <= KT_INDEX && n->lanes >= 1);
    if (n->lanes > 1 && t->caps.is_gpu)
        return arena_printf(k->arena, "%s has no vectors", t->name);
    if (!t->types[n->dtype].value)
        return arena_printf(k->arena, "%s has no %s", t->name, dtype_info[n->dtype].name);
    if (n->kind != KI_op)
        return NULL;
    const KInst *src = k_inst(k, kop_info[n->kop].cls == KCLASS_SEL ? n->b : n->a); // as in value_template
    if (target_spell(t, (KOp)n->kop, src->dtype, src->lanes))
        return NULL;
    const char *type = src->dtype == KT_INDEX ? "index" : dtype_info[src->dtype].name;
    return arena_printf(k->arena, "%s has no %s of %s", t->name, kop_info[n->kop].name, type);
}

static const char *lacks_group(const Target *t, const Kernel *k)
{
    uint64_t bytes = 0;
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_array && k_inst(k, r)->flags == KARRAY_SHARED && !k_is_coop_memory(k, r))
            bytes += (uint64_t)k_inst(k, r)->imm * 4; // as values, which may be wider than the type
    if (k->group != 0 && t->group == NULL)
        return arena_printf(k->arena, "%s has no groups of threads", t->name);
    return bytes <= t->caps.shared_bytes
               ? NULL
               : arena_printf(k->arena, "%s has no %llu bytes that a group shares", t->name,
                              (unsigned long long)bytes);
}

const char *target_lacks(const Target *t, const Kernel *k)
{
    rlx_assert(k->insts.len != 0 && k->arena != NULL);
    const char *message = lacks_group(t, k);
    if (t->caps.max_params != 0 && k->params.len > t->caps.max_params)
        message = arena_printf(k->arena, "%s has no kernels of %u buffers, only of up to %u", t->name,
                               k->params.len, t->caps.max_params);
    for (uint32_t i = 0; i < k->params.len && !message; i++)
        if (!t->types[k->params.data[i].dtype].value)
            message =
                arena_printf(k->arena, "%s has no %s", t->name, dtype_info[k->params.data[i].dtype].name);
    for (KRef r = 1; r < k->insts.len && !message; r++)
        message = lacks_inst(t, k, k_inst(k, r));
    return message;
}
