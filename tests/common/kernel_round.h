// SPDX-License-Identifier: Apache-2.0
// The listing of a kernel loses nothing: it reads back to a kernel with the same listing and the same text.
#ifndef TESTS_KERNEL_ROUND_H
#define TESTS_KERNEL_ROUND_H

#include "codegen/target/target.h"
#include "ir/kernel/kernel_parse.h"

// NULL, or what is wrong. target: prints both, unless it lacks what the kernel needs; NULL: only listings are
// compared.
static inline const char *kernel_round(Arena *a, const Target *target, const Kernel *k)
{
    Diag d = diag_new(a);
    Str first = str_new(a), second = str_new(a), text = str_new(a), other = str_new(a);
    kernel_print(k, &first);
    const Kernel *back = kernel_parse(a, &d, diag_add_file(&d, k->name, str_text(&first), first.len));
    if (back == NULL) {
        diag_print(&d, stdout, DIAG_PLAIN);
        return "the listing of a kernel does not read back";
    }
    kernel_print(back, &second);
    if (!str_equal(str_text(&first), str_text(&second))) {
        printf("%s=>\n%s", str_text(&first), str_text(&second));
        return "a kernel that is read back has another listing";
    }
    if (target == NULL || target_lacks(target, k) != NULL)
        return NULL;
    cfamily_print_kernel(target, k, &text);
    cfamily_print_kernel(target, back, &other);
    if (str_equal(str_text(&text), str_text(&other)))
        return NULL;
    printf("%s%s=>\n%s", str_text(&first), str_text(&text), str_text(&other));
    return "a kernel that is read back is printed in another way";
}

#endif
