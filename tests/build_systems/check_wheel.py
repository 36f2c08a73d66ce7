#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pip makes a wheel of tools/python, with the program and the libraries that it needs inside: in a new
virtual environment `rlxc` is a command, and rlxc.compile gives a model that runs. Compiled as the build that
runs this test, so that ccache has all objects. Usage: check_wheel.py"""

import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", ".")).resolve()
PYTHON = pathlib.Path(os.environ.get("RLXC_VENV", "build/venv")).absolute() / "bin/python"
sys.path.insert(0, str(ROOT / "tests/examples"))
sys.path.insert(0, str(ROOT / "tests/common"))
import ccache  # noqa: E402
import run_readme  # noqa: E402

FILES = """rlxc/__init__.py rlxc/bin/rlxc rlxc/bin/libcjson.so.1 rlxc/bin/libprotobuf-c.so.1
rlxc/share/rlxc/rlxc.mk rlxc/share/rlxc/cmake/rlxc-config.cmake
rlxc/share/rlxc/cmake/rlxc-config-version.cmake
rlxc/share/rlxc/meson/meson.build rlxc/include/rlxc/rlx.h rlxc/include/rlxc/rlx_stubs.h""".split()
PROGRAM = """
import numpy, rlxc, rlxc.tool
model = rlxc.compile(MODEL)
x = numpy.load(IMAGES)[:1]
logits, probs = model(x)
print("answer", int(probs.argmax()), rlxc.tool.find())
"""


def run(command, folder, **environment):
    env = {**os.environ, **ccache.KEEP, **environment}
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}")
    return done.stdout


def can_build():
    """The wheels that make wheels, and numpy."""
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", "import mesonpy, pip, numpy"], check=False,
                                              stderr=subprocess.DEVNULL).returncode == 0


def set_options(script):
    """Has the copy built with the options of this build, and as far from the sources."""
    text = script.read_text(encoding="utf-8")
    options = ", ".join(f'"{option}"' for option in ccache.options_of(os.environ["RLXC_BUILD"]))
    for before, after in (('"--buildtype=release"', options),
                          ("build(os.path.abspath(folder),", 'build(os.path.join(source, "build-wheel"),')):
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    script.write_text(text, encoding="utf-8")


def check_installed(wheel, folder):
    """With the numpy of the tests: nothing is fetched."""
    venv = f"{folder}/venv/bin"
    run([PYTHON, "-m", "venv", folder + "/venv"], folder)
    run([venv + "/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel], folder)
    packages = run([PYTHON, "-c", "import numpy; print(numpy.__path__[0])"], folder).strip()
    environment = {"PYTHONPATH": os.path.dirname(packages), "RLXC": "", "PATH": venv + ":/usr/bin:/bin"}
    version = run([venv + "/rlxc", "--version"], folder, **environment)
    assert version.startswith("rlxc "), version
    share = run([venv + "/rlxc", "--share-dir"], folder, **environment).strip()
    assert share.startswith(os.path.realpath(folder)) and os.path.exists(share + "/rlxc.mk"), share
    program = PROGRAM.replace("MODEL", repr(f"{ROOT}/models/digits/digits.json"))
    program = program.replace("IMAGES", repr(f"{ROOT}/models/digits/test_images.npy"))
    said = run([venv + "/python", "-c", program], folder, **environment)
    assert "answer 0 " in said and folder in said, said
    loaded = run(["ldd", os.path.realpath(share + "/../../bin/rlxc")], folder)
    inside = [line for line in loaded.splitlines() if "cjson" in line or "protobuf" in line]
    assert len(inside) == 2 and all("/rlxc/bin/" in line for line in inside), loaded


def main():
    if not can_build():
        print("skipped: no meson-python in the environment that tools/setup makes")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        sources = folder + "/rlxc"
        run_readme.copy_tree(str(ROOT), sources)
        set_options(pathlib.Path(sources, "tools/python/get_compiler.py"))
        command = [PYTHON, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation",
                   "-w", folder, sources + "/tools/python"]
        run(command, folder, RLXC="", PATH=f"{PYTHON.parent}:{os.environ['PATH']}")
        (wheel,) = pathlib.Path(folder).glob("rlxc-*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        for name in FILES:
            assert name in names, f"{name} is not in the wheel: {names}"
        check_installed(wheel, folder)


main()
