# SPDX-License-Identifier: Apache-2.0
"""Tests in Python that need not be repeated: the calls of rlxc that a test makes are recorded (by
tests/common/recorder.c, which takes the place of rlxc in it), and where another rlxc does the same in all of
them, the test has nothing new to find out. unchanged.py asks for it; separate from it because these tests
are known by what they do, not by what their program is.

A test passes without being run only if
* its arguments, the environment and our data (see unchanged.py) are the same;
* so are all files of our build and sources that it opened or named in commands (watched/);
* rlxc, called as before, in folders with the same files, ends in the same way, prints the same and leaves
  the same files behind.
What cannot be recorded runs each time: calls with limits, calls that are talked with (what subprocess.run
gives them is a file here: watched/), several at once, tests that measure time or memory, or that look into
folders of ours. A test that fails while it is
recorded is repeated without, and only that counts.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77  # Meson's word for it
# Calls that take a larger part of the test's time on processors, with so many seconds for each, are not
# worth it.
WORTH, EACH = 0.6, 0.01
MOST_BYTES = 64 << 20  # of the text of calls


def word(text):
    """One word of the recorder's."""
    out, parts = bytearray(), text.encode().split(b"%")
    out += parts[0]
    for part in parts[1:]:
        out += bytes([int(part[:2], 16)]) + part[2:]
    return os.fsdecode(bytes(out))


def hash_file(path):
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return "missing"


class Recording:
    """folder: of the test, with a recorder `rlxc`, which runs the real one."""

    def __init__(self, build, name, rlxc, recorder):
        self.folder = build / "passed" / "calls" / name
        self.blobs = build / "passed" / "blobs"
        self.root = pathlib.Path(tempfile.gettempdir()) / f"rlxc-{name[:12]}"
        self.stand_in = self.folder / "rlxc"
        self.rlxc, self.recorder = rlxc, recorder

    def begin(self):
        """Makes the folders, empty."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.blobs.mkdir(exist_ok=True)
        self.root.mkdir(mode=0o700)
        shutil.copy(self.recorder, self.stand_in)
        (self.folder / "program").write_text(f"{self.rlxc}\n{self.root}\n{self.blobs}\n", encoding="utf-8")

    def end(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def read(self, name):
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def with_rlxc(self, key):
        """What fails with one rlxc may be recorded with the next."""
        return f"{key} {hash_file(self.rlxc)}"

    def keep(self, key, said):
        (self.folder / "passed").write_text(f"{key}\n{said}", encoding="utf-8")

    # --- the first time ---------------------------------------------------------------------------

    def reason(self, seconds):
        """Why it cannot be kept, or ''."""
        said = self.read("unusable").strip()
        pythons = self.read("pythons").split()
        if "begins" not in pythons or pythons.count("begins") != pythons.count("ends"):
            said = said or "a Python that did not end"
        times = [int(text) / 1e6 for text in self.read("times").split()]
        in_calls = sum(times) + EACH * len(times)
        if not said and in_calls > WORTH * seconds:
            said = f"{in_calls:.1f} of {seconds:.1f} s are those of calls"
        path = self.folder / "calls"
        if not said and path.exists() and path.stat().st_size > MOST_BYTES:
            said = "too many files"
        return said

    def record(self, command, key):
        """Runs the test: (status, what it printed, and to standard error), or None where it failed."""
        self.begin()
        words = [str(self.stand_in) if arg == str(self.rlxc) else arg for arg in command]
        watched = {"TMPDIR": str(self.root), "PYTHONPATH": str(HERE / "watched"),
                   "RLXC_WATCHED": str(self.folder)}
        begin = sum(os.times()[2:4])
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            done = subprocess.run(words, stdout=out, stderr=err, check=False,
                                  env={**os.environ, **watched})
            out.seek(0)
            err.seek(0)
            said, wrong = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        seconds = sum(os.times()[2:4]) - begin
        self.end()
        if done.returncode == SKIPPED:
            return SKIPPED, said, wrong
        if done.returncode != 0 or "\nnot ok" in "\n" + said:
            self.keep(self.with_rlxc(key), "unusable: it failed")
            return None
        reason = self.reason(seconds)
        if reason:
            self.keep(key, f"unusable: {reason}")
        else:
            files = sorted(set(self.read("files").split("\n")) - {""})
            (self.folder / "hashes").write_text("".join(f"{hash_file(path)} {path}\n" for path in files),
                                                encoding="utf-8")
            self.keep(key, said)
        return 0, said, wrong

    # --- later ------------------------------------------------------------------------------------

    def apply(self, line):
        """Does to the files what the test did between two calls."""
        parts = line.split(" ")
        path = self.root / word(parts[-1])
        if parts[0] == "removed":
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
            return
        kind, mode, digest = parts[1], int(parts[2], 8), parts[3]
        if kind == "d":
            path.mkdir(exist_ok=True)
        else:
            if path.is_symlink() or path.exists():
                path.unlink()
            data = (self.blobs / digest).read_bytes()
            if kind == "l":
                path.symlink_to(os.fsdecode(data))
                return
            path.write_bytes(data)
        path.chmod(mode)

    def repeat(self, block):
        """Does rlxc do the same again?"""
        lines = block.split("\n")
        command, folder, environment, to = ([word(part) for part in line.split(" ")[1:]]
                                            for line in lines[:4])
        for line in lines[4:]:
            if line.startswith(("given ", "removed ")):
                self.apply(line)
        new = self.folder / "calls"
        before = new.stat().st_size if new.exists() else 0
        given = lines[4].removeprefix("reads ") if lines[4].startswith("reads ") else None
        with open(self.blobs / given if given else os.devnull, "rb") as stdin:
            subprocess.run(command, executable=self.stand_in, cwd=folder[0], stdin=stdin,
                           stdout=subprocess.DEVNULL, check=False,
                           stderr=subprocess.STDOUT if to == ["one"] else self.other,
                           env=dict(part.split("=", 1) for part in environment))
        with new.open(encoding="utf-8") as f:
            f.seek(before)
            return f.read() == block + "\nend\n"

    def is_same(self, calls):
        self.begin()
        with tempfile.TemporaryFile() as self.other:
            return all(self.repeat(block) for block in calls.split("\nend\n")[:-1])

    def passes_again(self, key):
        """What the test printed when it passed, if it would pass again; else None."""
        was, _, said = self.read("passed").partition("\n")
        if was != key or said.startswith("unusable: "):
            return None
        pairs = (line.split(" ", 1) for line in self.read("hashes").splitlines())
        if any(hash_file(path) != digest for digest, path in pairs):
            return None
        saved = self.folder.with_name(self.folder.name + ".was")
        shutil.rmtree(saved, ignore_errors=True)
        self.folder.rename(saved)
        calls = (saved / "calls").read_text(encoding="utf-8") if (saved / "calls").exists() else ""
        try:
            same = self.is_same(calls)
        except (OSError, ValueError):
            same = False
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        if same:
            saved.rename(self.folder)
        else:
            shutil.rmtree(saved)
        return said if same else None

    def is_useless(self, key):
        """It is known not to be worth it."""
        was, _, said = self.read("passed").partition("\n")
        return was in (key, self.with_rlxc(key)) and said.startswith("unusable: ")
