#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Depfiles: make and ninja compile a model again when any file that it was made from has changed, and only
then; also with odd names, and when a file goes away. A name that make, ninja or a shell would take for more
than a name is refused, by rlxc and by rlxc.mk, before anything is written or started.
Usage: check_depfile.py RLXC"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
OPTIONS = "--dim seq=4 --tune ../a.tune --depfile m.d --cc-flags m.flags --cpu x86-64-v3"
MAKEFILE = """all: m.c
m.c:
\t@echo compiled
\t@rlxc compile "$$MODEL" -o . --name m OPTIONS >made.txt
-include m.d
""".replace("OPTIONS", OPTIONS)
NINJA = """rule compile
  command = rlxc compile "$$MODEL" -o . --name m OPTIONS >made.txt
  description = compiled
  depfile = m.d
build m.c m.h: compile
""".replace("OPTIONS", OPTIONS)
BUILDS = {"Makefile": ["make", "-s"], "build.ninja": ["ninja"]}


def write_model(path, weights):
    graph = {
        "rlxc": 1,
        "name": "m",
        "symbols": {"seq": {"min": 1, "max": 8}},
        "inputs": {"x": {"dtype": "f32", "shape": ["seq", 4]}},
        "weights": {"w": {"file": weights, "tensor": "w"}, "b": {"file": "bias.npy"}},
        "nodes": [
            {"name": "y", "op": "matmul", "inputs": ["x", "w"]},
            {"name": "z", "op": "add", "inputs": ["y", "b"]},
        ],
        "outputs": ["z"],
    }
    with open(path, "w", encoding="utf-8") as f:
        json.dump(graph, f)


def write_weights(path, value):
    data = struct.pack("<16f", *[value] * 16)
    head = json.dumps({"w": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)


def write_npy(path, value):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<4f", *[value] * 4))


def write_tune(path, comment):
    with open(path, "w", encoding="ascii") as f:
        f.write(f"rlxc-tune 1\ncpu x86-64-v3\n# {comment}\n")


class Project:
    def __init__(self, folder, program):
        self.model_folder = f"{folder}/a model #1 $x"
        self.build_folder = f"{folder}/build"
        os.mkdir(self.model_folder)
        os.mkdir(self.build_folder)
        os.mkdir(folder + "/bin")
        os.symlink(RLXC, folder + "/bin/rlxc")
        self.model = self.model_folder + "/m.json"
        self.environment = dict(os.environ, MODEL=self.model, PATH=f"{folder}/bin:{os.environ['PATH']}")
        self.program, self.clock = program, 1_600_000_000
        for name, text in (("Makefile", MAKEFILE), ("build.ninja", NINJA)):
            with open(f"{self.build_folder}/{name}", "w", encoding="ascii") as f:
                f.write(text)
        write_model(self.model, "w 1.safetensors")
        write_weights(self.model_folder + "/w 1.safetensors", 1)
        write_npy(self.model_folder + "/bias.npy", 1)
        write_tune(folder + "/a.tune", "first")
        for path in (self.model, self.model_folder + "/w 1.safetensors", self.model_folder + "/bias.npy",
                     folder + "/a.tune"):
            os.utime(path, (self.clock, self.clock))

    def build(self):
        """Was the model compiled?"""
        done = subprocess.run(BUILDS[self.program], cwd=self.build_folder, env=self.environment,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{self.program}: {done.stdout}{done.stderr}"
        return "compiled" in done.stdout

    def generated(self):
        return open(self.build_folder + "/m.c", encoding="ascii").read()


def check(program, folder):
    p = Project(folder, program)
    assert p.build(), "nothing compiled at first"
    flags = open(p.build_folder + "/m.flags", encoding="ascii").read()
    assert flags == "-march=x86-64-v3\n", flags
    assert not p.build(), "compiled again though nothing changed"
    for what, change in (
        ("weights", lambda: write_weights(p.model_folder + "/w 1.safetensors", 2)),
        ("bias", lambda: write_npy(p.model_folder + "/bias.npy", 2)),
        ("model", lambda: write_model(p.model, "./w 1.safetensors")),
        ("tune file", lambda: write_tune(folder + "/a.tune", "second")),
    ):
        before = p.generated()
        change()
        assert p.build(), f"{program}: the {what} changed, but nothing was compiled"
        assert what in ("model", "tune file") or p.generated() != before
        assert not p.build(), f"{program}: compiled twice for the {what}"
    # Another file instead of one that goes away.
    write_weights(p.model_folder + "/w2.safetensors", 3)
    write_model(p.model, "w2.safetensors")
    os.remove(p.model_folder + "/w 1.safetensors")
    assert p.build() and not p.build()
    # A compile that fails leaves what there was, and is tried again.
    before = p.generated()
    write_model(p.model, "no such file")
    done = subprocess.run(BUILDS[program], cwd=p.build_folder, env=p.environment, capture_output=True,
                          check=False)
    assert done.returncode != 0 and p.generated() == before
    write_model(p.model, "w2.safetensors")
    assert p.build() and not p.build()


# Names that a depfile holds, and names in which one of make and ninja sees something else.
GOOD = ["a b", "a#b", "a$b", "a$(touch pwned)b", "a%b", "%.o", "a(b", "(a)b", "{a,b}", "a~b", "a@b", "!a",
        "+a", "a,b", ".SILENT", "-include x", "export", "\u00e9", "[a]"[1:]]
BAD = ["a;touch pwned", "w;touch${IFS}pwned;%.bin", "a=b", "SHELL=touch", "a*", "a?b", "[ab]", "a|b", "a<b",
       "a>b", "a&", "a^b", "a`touch pwned`b", "it's", 'a"b', "a\\b", "a\\", "a\tb", "a\nb", "a\rb", "a\x7f",
       "~root", "a)", "lib(m)", "a:b", "a:", "a "]


COMPILE = "compile model.json --name m --depfile m.d --cc-flags m.flags"


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def make_sum(place, names):
    """A model that adds a weight from each of the files."""
    os.mkdir(place)
    graph = {"rlxc": 1, "inputs": {"x0": {"dtype": "f32", "shape": [4]}}, "weights": {}, "nodes": [],
             "outputs": [f"x{len(names)}"]}
    for n, name in enumerate(names):
        with open(f"{place}/{name}", "wb") as f:
            f.write(struct.pack("<4f", n, n, n, n))
        os.utime(f"{place}/{name}", (1e9, 1e9))
        graph["weights"][f"w{n}"] = {"file": name, "dtype": "f32", "shape": [4]}
        graph["nodes"].append({"name": f"x{n + 1}", "op": "add", "inputs": [f"x{n}", f"w{n}"]})
    with open(place + "/model.json", "w", encoding="utf-8") as f:
        json.dump(graph, f)


def check_refused(folder):
    for n, name in enumerate(BAD):
        place = f"{folder}/bad{n}"
        make_sum(place, [name])
        done = run([RLXC, *COMPILE.split()], cwd=place)
        assert done.returncode == 1 and "E0002" in done.stderr and "--depfile: '" in done.stderr, \
            f"{name!r}: {done.returncode} {done.stderr}"
        assert sorted(os.listdir(place)) == sorted([name, "model.json"]), os.listdir(place)
    for folder_name in ("out%", "out;b"):
        done = subprocess.run([RLXC, *COMPILE.split(), "-o", folder_name], cwd=folder + "/good",
                              capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "--depfile: '" in done.stderr, done.stderr
        assert not os.path.exists(f"{folder}/good/{folder_name}")


def check_tracked(folder):
    """make and ninja notice when the file of each of the good names is newer; nothing of a name is run."""
    place = folder + "/good"
    make_sum(place, GOOD)
    for name, text in (("Makefile", f"m.c:\n\t@rlxc {COMPILE} >made\n-include m.d\n"),
                       ("build.ninja", f"rule c\n  command = rlxc {COMPILE} >made\n  depfile = m.d\n"
                                       "build m.c m.h: c\n")):
        with open(f"{place}/{name}", "w", encoding="ascii") as f:
            f.write(text)
    environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")

    def ask(*command):
        done = run(command, cwd=place, env=environment)
        assert done.returncode < 2 and "***" not in done.stderr, f"{command}: {done.stdout}{done.stderr}"
        return done.returncode == 1 if command[0] == "make" else "no work to do" not in done.stdout

    for build, asked in ((["make", "-s"], ["make", "-q"]), (["ninja"], ["ninja", "-n"])):
        if os.path.exists(place + "/m.c"):
            os.remove(place + "/m.c")
        ask(*build)
        later = os.stat(place + "/m.c").st_mtime + 5
        for name in GOOD:
            assert not ask(*asked), f"{build} would compile again before {name!r} changed"
            os.utime(f"{place}/{name}", (later, later))
            assert ask(*asked), f"{build} does not see that {name!r} changed"
            os.utime(f"{place}/{name}", (1e9, 1e9))
    assert not os.path.exists(place + "/pwned"), "a name was run"


MODELS = """include SHARE/rlxc.mk
RLXC_OUT := out
all: out/m.c
$(foreach m,$(wildcard *.json),$(eval $(call rlxc_model,m,$(m))))
"""


def check_makefile(folder):
    """rlxc.mk given whatever file is there."""
    share = subprocess.run([RLXC, "--share-dir"], capture_output=True, text=True, check=True).stdout.strip()
    environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
    for n, name in enumerate(["good.json", "a(b.json", "a,b~.json", "a@b+!.json", "a;touch pwned;.json",
                              "a$(shell touch pwned).json", "a%.json", "a=b.json", "`touch pwned`.json",
                              "a|b.json", "a&touch pwned.json",
                              'a"b.json', "it's.json", "a\\b.json", "a:b.json"]):
        place = f"{folder}/mk{n}"
        os.mkdir(place)
        name = name.replace(" ", "${IFS}" if "$" not in name else "\u00a0")
        shutil.copy(f"{ROOT}/models/decoder.json", f"{place}/{name}")
        shutil.copy(f"{ROOT}/models/decoder.safetensors", place)
        with open(place + "/Makefile", "w", encoding="utf-8") as f:
            f.write(MODELS.replace("SHARE", share))
        done = subprocess.run(["make", "-s"], cwd=place, env=environment, capture_output=True, text=True,
                              check=False)
        assert os.path.exists(place + "/out/m.c") == (n < 4), f"{name}: {done.stdout}{done.stderr}"
        assert n < 4 or "rlxc_model: '" in done.stderr, done.stderr
        assert not [f for f in os.listdir(place) if f.startswith("pwned")], f"{name} ran a command"


CMAKE = """cmake_minimum_required(VERSION 3.20)
project(odd C)
set(RLXC_EXECUTABLE "%s")
find_package(rlxc REQUIRED PATHS "%s/cmake" NO_DEFAULT_PATH)
rlxc_add_model(net MODEL "%s")
"""


def check_cmake(folder):
    """CMake makes rules of its own of a depfile, for either of its generators."""
    share = subprocess.run([RLXC, "--share-dir"], capture_output=True, text=True, check=True).stdout.strip()
    for generator in ("Unix Makefiles", "Ninja"):
        place = f"{folder}/cmake {generator}"
        make_sum(place, GOOD)
        os.rename(place + "/model.json", place + "/it's #$(touch pwned).json")
        name = "it's #\\$(touch pwned).json"
        for model, is_good in ((name, False), (name.replace("'", ""), True)):
            with open(place + "/CMakeLists.txt", "w", encoding="utf-8") as f:
                f.write(CMAKE % (RLXC, share, model))
            path = f"{place}/{model}".replace("\\", "")
            for command in (["cmake", "-S", ".", "-B", "b", "-G", generator], ["cmake", "--build", "b"]):
                done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
            assert (done.returncode == 0) == is_good, f"{generator}: {done.stdout}{done.stderr}"
            assert is_good or "--depfile: '" in done.stdout + done.stderr, done.stdout + done.stderr
            if not is_good:
                os.rename(path, path.replace("'", ""))
        for name in (GOOD[0], GOOD[-1]):
            later = time.time() + 5  # than what the build before has made
            os.utime(f"{place}/{name}", (later, later))
            done = run(["cmake", "--build", "b"], cwd=place)
            assert "Compiling the model" in done.stdout, f"{generator}, {name!r}: {done.stdout}"
            os.utime(f"{place}/{name}", (1e9, 1e9))
        assert not [f for f in os.listdir(place) + os.listdir(place + "/b") if "pwned" == f], generator


def check_pkgconfig(folder):
    """Folders of headers whose names a shell would take apart."""
    share = subprocess.run([RLXC, "--share-dir"], capture_output=True, text=True, check=True).stdout.strip()
    place = folder + "/a b;touch pwned/share/pkgconfig"
    os.makedirs(place)
    shutil.copy(share + "/rlxc.pc", place)
    flags = subprocess.run(["pkg-config", "--cflags", "rlxc"], env=dict(os.environ, PKG_CONFIG_PATH=place),
                           capture_output=True, text=True, check=True).stdout
    words = run(["sh", "-c", f"printf '%s\\n' {flags}"], cwd=folder).stdout.splitlines()
    assert len(words) == 1 and words[0].startswith("-I" + folder + "/a b;touch pwned/"), words


def main():
    absent = [t for t in ("make", "ninja") if shutil.which(t) is None]
    for program, command in BUILDS.items():
        if command[0] not in absent:
            with tempfile.TemporaryDirectory() as folder:
                check(program, folder)
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(RLXC, folder + "/rlxc")
        if not absent:
            check_tracked(folder)
            check_refused(folder)
            check_makefile(folder)
        if shutil.which("cmake") is None:
            absent.append("cmake")
        elif not absent:
            check_cmake(folder)
        if shutil.which("pkg-config") is None:
            absent.append("pkg-config")
        else:
            check_pkgconfig(folder)
    if absent:
        print("skipped: no " + " and no ".join(absent))
        sys.exit(77)


main()
