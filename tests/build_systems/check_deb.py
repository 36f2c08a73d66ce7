#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dpkg-buildpackage makes a package of a copy of the sources, whose program compiles a model that builds with
the headers in it. Compiled as the build that runs this test, so that ccache has all objects, and not
compressed: what the package holds is tested, not the code of rlxc.
Usage: check_deb.py"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", ".")).resolve()
sys.path.insert(0, str(ROOT / "tests/examples"))
sys.path.insert(0, str(ROOT / "tests/common"))
import ccache  # noqa: E402
import run_readme  # noqa: E402

TOOLS = ("dpkg-buildpackage", "dh", "dpkg-deb", "dpkg-checkbuilddeps")
FILES = """usr/bin/rlxc usr/include/rlxc/rlx.h usr/include/rlxc/rlx_stubs.h usr/share/rlxc/rlxc.mk
usr/share/rlxc/cmake/rlxc-config.cmake
usr/share/pkgconfig/rlxc.pc usr/share/rlxc/meson/meson.build usr/share/man/man1/rlxc.1.gz
usr/share/man/man1/rlxc-compile.1.gz usr/share/doc/rlxc/copyright
usr/share/doc/rlxc/examples/cmake/main.c""".split()


def run(command, folder, **environment):
    env = {**os.environ, **ccache.KEEP, **environment}
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stdout[-4000:]}")
    return done.stdout


def check_versions():
    """The version is said in four places."""
    patterns = {"meson.build": r"version: '([\d.]+)'", "debian/changelog": r"rlxc \(([\d.]+)\)",
                "tools/python/meson.build": r"version: '([\d.]+)'"}
    found = {name: re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))[1]
             for name, pattern in patterns.items()}
    if len(set(found.values())) != 1:
        sys.exit(f"versions differ: {found}")
    return found["meson.build"]


def check_needs():
    """What tools/setup installs for a build is what the package says it is built with."""
    setup = (ROOT / "tools/setup").read_text(encoding="utf-8")
    listed = set(re.search(r'^build_packages="([^"]*)"', setup, re.M)[1].split())
    control = (ROOT / "debian/control").read_text(encoding="utf-8")
    missing = [name for name in sorted(listed) if name.endswith("-dev") and name != "libc6-dev"
               and not re.search(rf"^\s.*\b{name}\b", control, re.M)]
    assert not missing, f"not in Build-Depends: {missing}"


def set_options(rules):
    """Has the copy built with the options of this build, and with no flags beside them."""
    text, before = rules.read_text(encoding="ascii"), "-Dtests=disabled\n"
    assert text.count(before) == 1, rules
    options = " ".join(ccache.options_of(os.environ["RLXC_BUILD"]))
    rules.write_text(text.replace(before, f"{before}\tmeson configure {options} obj-*\n"), encoding="ascii")
    return {f"DEB_{name}_SET": "" for name in ("CFLAGS", "CPPFLAGS", "LDFLAGS")}


def check_package(package, folder, version):
    run(["dpkg-deb", "-x", package, "x"], folder)
    tree = f"{folder}/x"
    for name in FILES:
        assert os.path.exists(f"{tree}/{name}"), f"{name} is not in the package"
    outside = [name for name in os.listdir(tree) if name != "usr"]
    assert not outside, f"in the package, outside of usr: {outside}"
    rlxc = tree + "/usr/bin/rlxc"
    assert run([rlxc, "--version"], folder).strip() == f"rlxc {version}"
    assert run([rlxc, "--share-dir"], folder).strip() == os.path.realpath(tree + "/usr/share/rlxc")
    run([rlxc, "compile", f"{ROOT}/models/mlp.json", "-o", folder, "--name", "mlp", "--link-runtime"], folder)
    run(["cc", "-I", tree + "/usr/include/rlxc", "-c", "mlp.c"], folder)
    needs = run(["dpkg-deb", "-f", package, "Depends"], folder)
    assert "libcjson1" in needs and "libprotobuf-c1" in needs, f"Depends: {needs}"


def main():
    version = check_versions()
    check_needs()
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        print("skipped: no " + ", ".join(absent))
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        sources = folder + "/rlxc"
        run_readme.copy_tree(str(ROOT), sources)
        build_needs = subprocess.run("dpkg-checkbuilddeps", cwd=sources, stderr=subprocess.PIPE, text=True,
                                     check=False)
        if build_needs.returncode != 0:
            print("skipped: " + build_needs.stderr.strip())
            sys.exit(77)
        options = f"nocheck noautodbgsym parallel={len(os.sched_getaffinity(0))}"
        run(["dpkg-buildpackage", "-us", "-uc", "-b"], sources, DEB_BUILD_OPTIONS=options,
            DPKG_DEB_COMPRESSOR_TYPE="none", **set_options(pathlib.Path(sources, "debian/rules")))
        (package,) = pathlib.Path(folder).glob("rlxc_*.deb")
        check_package(str(package), folder, version)
        if shutil.which("lintian"):
            run(["lintian", "--fail-on", "error", "--allow-root", str(package)], folder)


main()
