#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The compile cache: hits give the same bytes and the same words, whatever decides about a result makes a
miss, damaged entries are found, what was not used for longest goes, processes do not disturb each other.
Usage: check_cache.py RLXC"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
OLD = 1_000_000_000  # a time of use long ago, in seconds
ENTRY = ".rlxc-compile"


class Place:
    """A folder with a model, a cache and outputs."""

    def __init__(self, folder):
        self.folder, self.cache, self.n = folder, folder + "/cache", 0
        for name in ("digits.json", "digits.safetensors"):
            shutil.copy(f"{ROOT}/models/digits/{name}", folder)

    def compile(self, *options, program=RLXC, status=0, **environment):
        """Files and what was printed about them, with the folder's name taken out."""
        self.n += 1
        out = f"{self.folder}/out{self.n}"
        command = [program, "compile", self.folder + "/digits.json", "-o", out, *options]
        env = {k: v for k, v in os.environ.items() if not k.startswith("RLXC_CACHE")}
        env.update(environment)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stderr}"
        if status != 0:
            return done.stderr
        files = {name: open(f"{out}/{name}", "rb").read() for name in sorted(os.listdir(out))}
        self.stderr = done.stderr
        return files, done.stdout.replace(out, "OUT")

    def cached(self, *options, **more):
        return self.compile("--cache", self.cache, *options, **more)

    def entries(self):
        """Of each entry the number of its file; all are made to look old."""
        found = {}
        for name in os.listdir(self.cache):
            assert name.endswith(ENTRY), f"{name} is left in the cache"
            path = f"{self.cache}/{name}"
            found[path] = os.stat(path).st_ino
            os.utime(path, (OLD, OLD))
        return found

    def used(self):
        paths = (f"{self.cache}/{name}" for name in os.listdir(self.cache))
        return {path for path in paths if os.stat(path).st_mtime > OLD}

    def is_hit(self, *options, **more):
        """An entry was used and stayed the file that it was, and the result is the one without a cache."""
        before = self.entries()
        result = self.cached(*options, **more)
        is_hit = len(self.used() & set(before)) == 1
        assert is_hit or len(self.entries()) == len(before) + 1, "neither a hit nor a miss"
        assert not is_hit or self.entries() == before, "a hit wrote to the cache"
        assert result == self.compile(*options), f"{options}: the cache gives something else"
        return is_hit


def manage(place, *what):
    command = [RLXC, "cache", *what, "--cache", place.cache]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def check_keys(place):
    assert place.cached() == place.compile()
    for options in ([], ["--json"], ["--cpu", "x86-64-v3"], ["--weights", "file"], ["--dim", "batch=2"],
                    ["--dim", "batch=1..3"], ["--name", "other"], ["-O1"], ["--no-fuse"]):
        if options:
            assert not place.is_hit(*options), f"{options}: a hit, but it was never compiled"
        assert place.is_hit(*options), f"{options}: a miss the second time"
    assert place.is_hit("--depfile", place.folder + "/d", "--no-color"), "neither changes what is made"
    assert place.is_hit(RLXC_CACHE="/nonexistent"), "--cache counts, not RLXC_CACHE"
    weights = bytearray(open(place.folder + "/digits.safetensors", "rb").read())
    weights[-1] ^= 1
    with open(place.folder + "/digits.safetensors", "wb") as f:
        f.write(weights)
    assert not place.is_hit(), "one byte of the weights has changed"
    assert place.is_hit()
    check_moved(place)
    other = place.folder + "/rlxc"
    shutil.copy(RLXC, other)
    with open(other, "ab") as f:
        f.write(b"1")
    assert not place.is_hit(program=other), "another compiler"
    assert place.is_hit("--cpu", "x86-64-v3", "--name", "other") is False
    model = json.load(open(place.folder + "/digits.json", encoding="ascii"))
    model["outputs"].reverse()
    json.dump(model, open(place.folder + "/digits.json", "w", encoding="ascii"))
    assert not place.is_hit(), "the model has changed"


def check_moved(place):
    """The same model in another folder is a hit, but not where the path of its weights is in the results."""
    said = []
    for name in ("one", "two"):
        folder = f"{place.folder}/{name}"
        os.mkdir(folder)
        for file in ("decoder.json", "decoder.safetensors"):
            shutil.copy(f"{ROOT}/models/{file}", folder)
        for options in ([], ["--weights", "inplace"]):
            command = [RLXC, "compile", folder + "/decoder.json", "-o", "out", "--cache", place.cache]
            n = len(place.entries())
            command += options
            done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
            said.append((len(place.entries()) - n, f"{folder}/decoder.safetensors" in done.stdout))
    assert said == [(1, False), (1, True), (0, False), (1, True)], said


def check_environment(place):
    n = len(place.entries())
    place.compile("--name", "env", RLXC_CACHE=place.cache)
    assert len(place.entries()) == n + 1, "RLXC_CACHE does not count"
    place.compile("--name", "env2", "--cache", "none", RLXC_CACHE=place.cache)
    place.compile("--name", "env3", "--dump", "fuse", RLXC_CACHE=place.cache)
    place.compile("--name", "env4", RLXC_CACHE="")
    assert len(place.entries()) == n + 1
    text = place.compile(RLXC_CACHE=place.cache, RLXC_CACHE_SIZE="large", status=2)
    assert "RLXC_CACHE_SIZE=large" in text, text
    os.chmod(place.cache, 0o777)
    assert "written by everybody" in place.cached(status=1)
    os.chmod(place.cache, 0o755)
    # The model is wrong: the same message, nothing kept.
    assert "error" in place.cached("--dim", "batch=1000", status=1)
    assert len(place.entries()) == n + 1


def check_damage(place):
    want = place.compile()
    manage(place, "clear")
    place.cached()
    (path,) = place.entries()
    whole = open(path, "rb").read()
    head = whole.index(b"\n\n")
    spots = [0, 14, 15, 20, 46, 47, 48, 60,
             head - 1, head, head + 1, head + 40, len(whole) // 2, len(whole) - 1]
    damaged = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1:] for i in spots]
    damaged += [whole[:i] for i in (0, 10, 30, 60, head, head + 2, len(whole) - 1)] + [whole + b"x"]
    for n, data in enumerate(damaged):
        with open(path, "wb") as f:
            f.write(data)
        assert place.cached() == want, f"damage {n} is taken"
        assert "E0007" in place.stderr, f"damage {n} is not reported: {place.stderr}"
        assert open(path, "rb").read() == whole, f"damage {n} stays"
    assert place.cached() == want and place.stderr == ""


def check_limit(place):
    """Of three compiles of one size, with room for two, the one not used for longest goes."""
    names = {}

    def use(name):
        before = set(os.listdir(place.cache))
        place.cached("--name", name, RLXC_CACHE_SIZE=str(int(2.5 * size)))
        for added in set(os.listdir(place.cache)) - before:
            names[added] = name
        time.sleep(0.02)

    (path,) = place.entries()
    size = os.path.getsize(path)
    place.cached("--name", "x", RLXC_CACHE_SIZE=str(size // 2))
    assert place.entries().keys() == {path}, "too large to be kept, but something changed"
    with open(place.cache + "/mine.txt", "w", encoding="ascii") as f:
        f.write("not an entry")
    os.remove(path)
    for name in ("a", "b", "a", "c"):
        use(name)
    left = {names[n] for n in os.listdir(place.cache) if n.endswith(ENTRY)}
    assert left == {"a", "c"}, f"left are {left}"
    stale = place.cache + "/0" + ENTRY + ".1.tmp"
    open(stale, "w", encoding="ascii").close()
    os.utime(stale, (OLD, OLD))
    use("d")
    assert not os.path.exists(stale), "what a dead process left stays for ever"
    assert json.loads(manage(place, "show", "--json"))["compiles"]["entries"] == 2
    assert b"removed 2 compiles" in manage(place, "clear")
    assert os.listdir(place.cache) == ["mine.txt"], "clear removes its own files only"
    os.remove(place.cache + "/mine.txt")


def check_parallel(place):
    """Processes that fill, use, trim and damage one cache all give what a compile without it gives."""
    want = {name: place.compile("--name", name)[0] for name in ("a", "b")}
    for size in ("1G", "400K"):
        runs = []
        for i in range(12):
            name, out = "ab"[i % 2], f"{place.folder}/p{size}{i}"
            command = [RLXC, "compile", place.folder + "/digits.json", "--name", name, "-o", out]
            env = dict(os.environ, RLXC_CACHE=place.cache, RLXC_CACHE_SIZE=size)
            runs.append((name, out, subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)))
        for name, out, run in runs:
            assert run.wait() == 0
            assert {n: open(f"{out}/{n}", "rb").read() for n in sorted(os.listdir(out))} == want[name]
        assert len(place.entries()) <= 2


def main():
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder)
        for check in (check_keys, check_environment, check_damage, check_limit, check_parallel):
            check(place)


main()
