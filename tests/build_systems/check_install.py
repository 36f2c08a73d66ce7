#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `meson install` does: it puts all that others need into place, and the place can be moved. From there
the sample of pkg-config runs, and projects of CMake, Meson and make that find rlxc there use models whose
options ask for more of a build: threads, weights in a file of their own, the headers of the runtime.
Usage: check_install.py RLXC BUILD RUN_README"""

import os
import shutil
import subprocess
import sys
import tempfile

RLXC, BUILD, RUN_README = (os.path.abspath(path) for path in sys.argv[1:4])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
FILES = """bin/rlxc include/rlxc/rlx.h include/rlxc/rlx_stubs.h include/rlxc/rlx_types.h
share/pkgconfig/rlxc.pc share/rlxc/rlxc.mk include/rlxc/rlxc_text.h share/rlxc/rlxc-text.pc
share/rlxc/cmake/rlxc-config.cmake share/rlxc/cmake/rlxc-config-version.cmake share/rlxc/meson/meson.build
share/doc/rlxc/README.md share/doc/rlxc/docs/API.md share/doc/rlxc/examples/make/Makefile
share/man/man1/rlxc.1""".split()
OPTIONS = {"digits": "--weights incbin", "lstm": "--threads 2 --link-runtime"}
MODELS = {"digits": f"{ROOT}/models/digits/digits.json", "lstm": f"{ROOT}/models/lstm.json"}
MAIN = """#include "lstm.h" // with all of runtime-lite, so that it is the first
#include "digits.h"
#include <stdio.h>
int main(void)
{
    static RLX_ALIGNED unsigned char arena[DIGITS_ARENA_BYTES];
    static rlx_pool pool;
    static RLX_ALIGNED unsigned char arena2[LSTM_ARENA_BYTES], state2[LSTM_STATE_BYTES + 1];
    float image[64] = {0}, logits[10], probs[10];
    rlx_ctx a, b;
    int bad = digits_init(&a, arena, sizeof arena, NULL, 0) || digits(&a, image, logits, probs);
    bad = bad || lstm_init(&b, arena2, sizeof arena2, state2, sizeof state2) || lstm_threads_start(&b, &pool);
    if (!bad)
        lstm_threads_stop(&b);
    puts(bad ? "bad" : "both models are there");
    return bad;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(both C)
find_package(rlxc 0.1 REQUIRED)
rlxc_add_model(first MODEL {digits} NAME digits OPTIONS {digits_options})
rlxc_add_model(lstm MODEL {lstm} OPTIONS {lstm_options} --split 3)
add_executable(both main.c)
target_link_libraries(both first lstm)
"""
MESON = """project('both', 'c')
rlxc_models = {{
  'digits': {{'model': files('{digits}'), 'options': '{digits_options}'.split()}},
  'lstm': {{'model': files('{lstm}'), 'options': '{lstm_options} --split 2'.split()}},
}}
subdir('rlxc')
executable('both', 'main.c', dependencies: [rlxc_dep['digits'], rlxc_dep['lstm']])
"""
MAKE = """include $(shell rlxc --share-dir)/rlxc.mk
RLXC_CFLAGS += -I$(shell rlxc --share-dir)/../../include/rlxc
build/both: main.c build/digits.o build/lstm.o
\t$(CC) -Ibuild $(RLXC_CFLAGS) main.c build/digits.o build/lstm.o -pthread -lm -o $@
$(eval $(call rlxc_model,digits,{digits},{digits_options},2))
$(eval $(call rlxc_model,lstm,{lstm},{lstm_options}))
"""
PROJECTS = {  # by the program that they need: file, text, commands
    "cmake": ("CMakeLists.txt", CMAKE, "cmake -S . -B build >log && cmake --build build >>log"),
    "meson": ("meson.build", MESON, "cp -r $(rlxc --share-dir)/meson rlxc && meson setup build >log && "
                                    "meson compile -C build >>log"),
    "make": ("Makefile", MAKE, "make >log"),
}


def install(folder):
    """The tree, moved away from where it was put."""
    command = ["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder + "/dest"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for top, _, names in os.walk(folder + "/dest"):
        if "rlxc" in names and os.path.basename(top) == "bin":
            os.rename(os.path.dirname(top), folder + "/moved")
            return folder + "/moved"
    sys.exit("no bin/rlxc was installed")


def check_files(prefix):
    for name in FILES:
        assert os.path.exists(f"{prefix}/{name}"), f"{name} is not installed"
    for name in os.listdir(ROOT + "/runtime-lite"):
        assert not name.endswith(".h") or os.path.exists(f"{prefix}/include/rlxc/{name}"), name
    for name in os.listdir(ROOT + "/examples"):
        is_sample = os.path.exists(f"{ROOT}/examples/{name}/README.md")
        assert not is_sample or os.path.exists(f"{prefix}/share/doc/rlxc/examples/{name}/README.md"), name
    command = [prefix + "/bin/rlxc", "--share-dir"]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert found.stdout.strip() == os.path.realpath(prefix + "/share/rlxc"), found.stdout


def check_alone(folder, prefix):
    """Without its folder, rlxc says so."""
    shutil.copy(prefix + "/bin/rlxc", folder + "/rlxc")
    done = subprocess.run([folder + "/rlxc", "--share-dir"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no folder share/rlxc" in done.stderr, done


def check_project(name, folder, environment):
    file, text, commands = PROJECTS[name]
    place = f"{folder}/{name}"
    os.mkdir(place)
    options = {f"{model}_options": given for model, given in OPTIONS.items()}
    for path, content in (("main.c", MAIN), (file, text.format(**MODELS, **options))):
        with open(f"{place}/{path}", "w", encoding="ascii") as f:
            f.write(content)
    commands = f"({commands} && build/both) 2>&1 || {{ cat log; exit 1; }}"
    done = subprocess.run(["sh", "-c", commands], cwd=place, env=environment, stdout=subprocess.PIPE,
                          text=True, check=False)
    assert done.returncode == 0 and "both models are there" in done.stdout, f"{name}:\n{done.stdout}"


def check_sample(folder, prefix, environment):
    """The samples are installed with the models that they take."""
    shutil.copytree(prefix + "/share/doc/rlxc", folder + "/doc")
    done = subprocess.run(["make", "-s"], cwd=folder + "/doc/examples/make", env=environment, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "this is a 3" in done.stdout, done.stdout


def check_text_library(folder, prefix, environment):
    """Programs link with what is installed."""
    with open(folder + "/text.c", "w", encoding="ascii") as f:
        f.write('#include <rlxc_text.h>\nint main(void) { return !rlxc_template_read("x", 1, 0, 0); }\n')
    command = f"PKG_CONFIG_PATH={prefix}/share/rlxc; export PKG_CONFIG_PATH; cd {folder} && cc text.c " \
              "$(pkg-config --cflags --libs rlxc-text) -o text && ./text"
    subprocess.run(["sh", "-c", command], check=True, env=environment)


def main():
    skipped = [t for t in ("meson", "cmake", "make", "pkg-config") if shutil.which(t) is None]
    if "meson" in skipped:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        prefix = install(folder)
        check_files(prefix)
        check_alone(folder, prefix)
        path = f"{prefix}/bin:{os.environ['PATH']}"
        environment = dict(os.environ, PATH=path, PKG_CONFIG_PATH=prefix + "/share/pkgconfig")
        for name in PROJECTS:
            if name not in skipped:
                check_project(name, folder, environment)
        if "make" not in skipped:
            check_sample(folder, prefix, environment)
        check_text_library(folder, prefix, environment)
        page = ROOT + "/examples/pkgconfig/README.md"
        command = [sys.executable, RUN_README, RLXC, "--prefix", prefix, page]
        status = subprocess.run(command, check=False).returncode
        assert status in (0, 77), "the sample of pkg-config"
    if skipped:
        print("skipped: no " + " and no ".join(skipped))
        sys.exit(77)


main()
