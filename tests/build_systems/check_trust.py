#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both caches: only folders are taken that nobody else can write to, what is damaged is made again, another
compiler is another entry, killed runs leave nothing, and there is a limit. Usage: check_trust.py RLXC"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RLXC = os.path.abspath(sys.argv[1])
OTHER_USER = 12345
MODEL = {"rlxc": 1, "inputs": {"x": {"dtype": "f32", "shape": [4]}},
         "nodes": [{"name": "y", "op": "add", "inputs": ["x", "x"]}], "outputs": ["y"]}


class Place:
    def __init__(self, folder):
        self.folder, self.home = folder, folder + "/home"
        self.cache = self.home + "/rlxc"
        self.model = folder + "/m.json"
        with open(self.model, "w", encoding="ascii") as f:
            json.dump(MODEL, f)
        self.cc = shutil.which(os.environ.get("CC", "cc").split()[0])

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("RLXC_CACHE")}
        return dict(env, XDG_CACHE_HOME=self.home, CC=self.cc, **more)

    def run(self, *options, status=0, **more):
        """What was printed; where a run fails, its messages."""
        command = [RLXC, "run", self.model, "--random", "1", *options]
        done = subprocess.run(command, env={**self.environment(), **more}, capture_output=True, text=True,
                              check=False)
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return re.sub(r"[0-9.]+ ms", "", done.stdout) if status == 0 else done.stderr

    def compile(self, cache, status=0):
        command = [RLXC, "compile", self.model, "-o", self.folder + "/out", "--cache", cache]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stderr

    def libraries(self):
        names = os.listdir(self.cache)
        found = sorted(n for n in names if n.endswith(".so"))
        assert sorted(names) == sorted(found + [n + ".sum" for n in found]), names
        return [f"{self.cache}/{n}" for n in found]

    def fresh(self):
        shutil.rmtree(self.home, ignore_errors=True)


def check_folders(p):
    """The folder itself and one above it, of both caches, by mode, owner and kind."""
    old = os.umask(0)
    p.run()
    os.umask(old)
    assert os.stat(p.home).st_mode & 0o777 == os.stat(p.cache).st_mode & 0o777 == 0o700
    assert all(os.stat(n).st_mode & 0o077 == 0 for n in p.libraries())
    compiles = p.home + "/compiles"
    p.compile(compiles)
    assert os.stat(compiles).st_mode & 0o777 == 0o700

    def refused(*words):
        for said in (p.run(status=1), p.compile(compiles, 1)):
            assert "E0002" in said and all(w in said for w in words), said
            assert "XDG_CACHE_HOME" in said or "--cache" in said, said
        assert "E0002" in subprocess.run([RLXC, "cache"], env=p.environment(), capture_output=True, text=True,
                                         check=False).stderr

    for mode, word in ((0o770, "a group"), (0o720, "a group"), (0o777, "everybody"), (0o1777, "everybody")):
        for folder in (p.cache, compiles):
            os.chmod(folder, mode)
        refused(word, "chmod go-w")
    for folder in (p.cache, compiles):
        os.chmod(folder, 0o700)
    for mode, is_good in ((0o777, False), (0o775, False), (0o1777, True), (0o755, True)):
        os.chmod(p.home, mode)
        if not is_good:
            refused(p.home, "above it", "chmod go-w")
        else:
            p.run()
            p.compile(compiles)
    os.chmod(p.home, 0o700)
    check_links(p, compiles, refused)
    if os.geteuid() == 0:
        for folder in (p.home, ""):
            for path in [folder] if folder else [p.cache, compiles]:
                os.chown(path, OTHER_USER, -1)
            refused(f"belongs to user {OTHER_USER}")
            for path in (p.home, p.cache, compiles):
                os.chown(path, 0, -1)
    else:
        assert "belongs to user 0" in p.compile("/usr/share", 1)
    p.run()


def check_links(p, compiles, refused):
    for folder in (p.cache, compiles):
        os.rename(folder, folder + ".real")
        os.symlink(folder + ".real", folder)
    refused("symbolic link", ".real")
    for folder in (p.cache, compiles):
        os.remove(folder)
        os.rename(folder + ".real", folder)
    link = p.folder + "/link"
    os.symlink(p.home, link)  # a link above it leads to a folder that is checked
    assert p.run(XDG_CACHE_HOME=link) == p.run()
    os.chmod(p.home, 0o777)
    assert "above it" in p.run(XDG_CACHE_HOME=link, status=1)
    os.chmod(p.home, 0o700)
    os.remove(link)


def check_damage(p):
    want = p.run()
    (path,) = p.libraries()
    whole = open(path, "rb").read()

    def heals(what):
        assert p.run() == want, what
        assert p.libraries() == [path] and open(path, "rb").read() == whole, what
        inode = os.stat(path).st_ino
        assert p.run() == want and os.stat(path).st_ino == inode, f"{what}: made twice"

    for n in (0, 100, len(whole) // 2, 4096, len(whole) - 1):
        with open(path, "r+b") as f:
            f.truncate(n)
        heals(f"{n} bytes are left")
    with open(path, "r+b") as f:
        f.seek(len(whole) // 3)
        f.write(b"damaged")
    heals("other bytes")
    os.remove(path + ".sum")
    heals("no hash")
    with open(path + ".sum", "w", encoding="ascii") as f:
        f.write("0" * 32)
    heals("another hash")
    os.rename(path, p.folder + "/elsewhere.so")
    os.symlink(p.folder + "/elsewhere.so", path)
    heals("a link")
    os.chmod(path, 0o666)
    heals("written by everybody")
    if os.geteuid() == 0:
        os.chown(path, OTHER_USER, -1)
        heals("another user's")
    p.fresh()
    p.compile(p.home + "/c")
    (entry,) = (f"{p.home}/c/{n}" for n in os.listdir(p.home + "/c"))
    os.chmod(entry, 0o666)
    assert "E0007" in p.compile(p.home + "/c") and os.stat(entry).st_mode & 0o077 == 0
    assert p.compile(p.home + "/c") == ""


def check_compiler(p):
    """The text of $CC stays, but it is another program."""
    p.fresh()
    folder = p.folder + "/bin"
    os.mkdir(folder)
    n = 0
    for text in ("", "# changed\n"):
        with open(folder + "/cc", "w", encoding="ascii") as f:
            f.write(f'#!/bin/sh\n{text}exec {p.cc} "$@"\n')
        os.chmod(folder + "/cc", 0o755)
        for cc in ("cc", "env cc"):
            for _ in range(2):
                p.run(CC=cc, PATH=f"{folder}:{os.environ['PATH']}")
            n += 1
            assert len(p.libraries()) == n, f"{cc} {text}: {p.libraries()}"
    p.run()
    p.run(CPATH=folder)
    assert len(p.libraries()) == n + 2


def work_folders(p):
    return [n for n in os.listdir(p.cache) if n.startswith("rlxc-work-")] if os.path.exists(p.cache) else []


def check_foreign(p):
    """A cache may be a folder that holds other things: only what rlxc made is ever removed."""
    cache = p.folder + "/project"
    theirs = ["build-debug", "build-Abcdef", "work-notes", "work-Abcdef", "rlx-metal-Abcdef",
              "rlxc-work-plan", "rlxc-work-Abcdef", "rlxc-work-Abcdefg", "src"]
    for name in theirs:
        os.makedirs(f"{cache}/{name}/inner")
        with open(f"{cache}/{name}/thesis.txt", "w", encoding="ascii") as f:
            f.write("a year of work\n")
        os.utime(f"{cache}/{name}", (1e9, 1e9))
    os.chmod(cache, 0o700)
    left = f"{cache}/rlxc-work-Killed"  # by a process that was killed before it locked it
    os.mkdir(left)
    os.utime(left, (1e9, 1e9))
    p.compile(cache)
    assert not os.path.exists(left)
    subprocess.run([RLXC, "cache", "clear", "--cache", cache], env=p.environment(), check=True,
                   stdout=subprocess.DEVNULL)
    assert sorted(os.listdir(cache)) == sorted(theirs), os.listdir(cache)
    parts = ("inner", "thesis.txt")
    assert all(os.path.exists(f"{cache}/{name}/{part}") for name in theirs for part in parts)


def check_killed(p):
    p.fresh()
    slow = p.folder + "/slow"
    with open(slow, "w", encoding="ascii") as f:
        f.write(f'#!/bin/sh\necho $$ >{p.folder}/pid\nsleep 30\nexec {p.cc} "$@"\n')
    os.chmod(slow, 0o755)
    run = subprocess.Popen([RLXC, "run", p.model, "--random", "1"], env={**p.environment(), "CC": slow},
                           stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 60
    while not os.path.exists(p.folder + "/pid") and time.monotonic() < end:
        time.sleep(0.01)
    p.run()
    assert len(work_folders(p)) == 1, "of one that still runs"
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert len(work_folders(p)) == 1
    p.run()
    assert work_folders(p) == [] and len(p.libraries()) == 1, os.listdir(p.cache)
    old = p.cache + "/build-Abcdef"  # of another version of rlxc
    os.mkdir(old)
    with open(old + "/m.c", "w", encoding="ascii") as f:
        f.write("int x;\n")
    p.run()
    assert os.path.exists(old)
    os.utime(old, (1e9, 1e9))
    p.run()
    assert not os.path.exists(old)


def check_limit(p):
    """With room for two libraries, the one not used for longest goes; `rlxc cache` shows and clears them."""
    p.fresh()
    names, clock = {}, 1e9
    p.run("--name", "a")
    size = os.path.getsize(p.libraries()[0])
    names[p.libraries()[0]] = "a"
    for name in ("b", "a", "c", "d", "c", "e"):
        for n, path in enumerate(sorted(p.libraries(), key=os.path.getmtime)):
            os.utime(path, (clock + n, clock + n))
        p.run("--name", name, RLXC_CACHE_SIZE=str(int(2.5 * size)))
        for path in p.libraries():
            names.setdefault(path, name)
        assert len(p.libraries()) <= 2
    assert {names[path] for path in p.libraries()} == {"c", "e"}
    p.run("--name", "f", RLXC_CACHE_SIZE="1")
    assert len(p.libraries()) == 1, "what is used now stays"

    size = os.path.getsize(p.libraries()[0])

    def cache(*what):
        done = subprocess.run([RLXC, "cache", *what], env=p.environment(), capture_output=True, text=True,
                              check=True)
        return done.stdout

    assert json.loads(cache("--json"))["libraries"] == {"folder": p.cache, "entries": 1, "bytes": size,
                                                       "limit_bytes": 1 << 30}
    assert f"{p.cache}: 1 libraries, {size} bytes" in cache()
    assert cache("clear").startswith(f"removed 1 libraries, {size} bytes")
    assert os.listdir(p.cache) == []


def main():
    for check in (check_folders, check_damage, check_compiler, check_killed, check_foreign,
                  check_limit):
        with tempfile.TemporaryDirectory() as folder:
            check(Place(os.path.realpath(folder)))


main()
