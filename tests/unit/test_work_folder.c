// SPDX-License-Identifier: Apache-2.0
// Folders in a cache, made while other processes sweep it: each that was made is whole and locked.
#include "compiler/system/work_folder.h"
#include "unit.h"
#include <sys/stat.h>

enum { FOLDERS = 1000, SWEEPERS = 2 };

static char cache[] = "/tmp/rlxc-work-folder-XXXXXX";

static void sweep_for_ever(void)
{
    for (;;) {
        Arena arena = {0};
        work_folder_sweep(&arena, cache);
        arena_free(&arena);
    }
}

static void test_made_while_swept(void **state)
{
    (void)state;
    pid_t sweeper[SWEEPERS];
    assert_non_null(mkdtemp(cache));
    for (int i = 0; i < SWEEPERS; i++) {
        sweeper[i] = fork();
        assert_true(sweeper[i] >= 0);
        if (sweeper[i] == 0)
            sweep_for_ever();
    }
    uint32_t failed = 0;
    for (int i = 0; i < FOLDERS; i++) {
        Arena arena = {0};
        Diag diag = diag_new(&arena);
        WorkFolder work;
        struct stat st;
        const bool is_made = work_folder_make(&diag, cache, &work) && stat(work.path, &st) == 0;
        failed += !is_made;
        work_folder_remove(&work);
        arena_free(&arena);
    }
    for (int i = 0; i < SWEEPERS; i++) {
        kill(sweeper[i], SIGKILL);
        assert_int_equal(waitpid(sweeper[i], NULL, 0), sweeper[i]);
    }
    assert_int_equal(failed, 0);
    assert_int_equal(rmdir(cache), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_made_while_swept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
