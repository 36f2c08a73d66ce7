// SPDX-License-Identifier: Apache-2.0
// The program that emulate.c counts: one run of a network on inputs of zeros, on the memory of NAME_static.
// Carried as text, and compiled beside the network, which is called `net` there.
#include <net.h>
#include <start.h>

extern uint32_t stack_top[];

static inline __attribute__((always_inline)) uintptr_t stack_pointer(void)
{
    uintptr_t at;
#ifdef __riscv
    __asm__ volatile("mv %0, sp" : "=r"(at));
#else
    __asm__ volatile("mov %0, sp" : "=r"(at));
#endif
    return at;
}

// Rows of zeros, one by one, where the input comes so.
static rlx_status run(rlx_ctx *net)
{
#ifdef ROWS
    static double row[(ROW_BYTES + 7) / 8];
    for (int i = 0; i < ROWS; i++) {
        const rlx_status status = rlx_feed_rows(net, row, 1);
        if (status != RLX_OK)
            return status;
    }
#endif
    return rlx_run(net);
}

int main(void)
{
    rlx_ctx *net = net_static();
    const uintptr_t own = (uintptr_t)stack_top - stack_pointer();
    if (net == NULL)
        return 1;
    board_fill_stack();
    board_mark();
    const rlx_status status = run(net);
    board_mark();
    board_say("stack ");
    board_say_number((int32_t)(board_stack_bytes() - own));
    board_say("\ncc " __VERSION__ "\n");
    return status != RLX_OK;
}
