// SPDX-License-Identifier: Apache-2.0
// Any model as a WebAssembly module, for check_wasm.py: inputs and outputs are read and written in place.
#include "m.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

static RLX_ALIGNED unsigned char arena[M_ARENA_BYTES], state[M_STATE_BYTES + RLX_ALIGNMENT];
static rlx_ctx ctx;

int EXPORT(start)(void)
{
    return (int)m_init(&ctx, arena, sizeof arena, state, sizeof state);
}

int EXPORT(run)(void)
{
    return (int)rlx_run(&ctx);
}

void *EXPORT(input_at)(unsigned slot)
{
    return rlx_input(&ctx, slot);
}

const void *EXPORT(output_at)(unsigned slot)
{
    return rlx_output(&ctx, slot);
}

int EXPORT(input_slot)(const char *name)
{
    return rlx_find(m_model.inputs, m_model.n_inputs, name);
}

int EXPORT(output_slot)(const char *name)
{
    return rlx_find(m_model.outputs, m_model.n_outputs, name);
}

unsigned EXPORT(input_bytes)(unsigned slot)
{
    return (unsigned)m_model.inputs[slot].bytes;
}

unsigned EXPORT(output_bytes)(unsigned slot)
{
    return (unsigned)m_model.outputs[slot].bytes;
}

// Where the page writes a name.
char *EXPORT(name_at)(void)
{
    static char name[64];
    return name;
}
