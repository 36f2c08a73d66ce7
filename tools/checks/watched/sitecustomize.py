# SPDX-License-Identifier: Apache-2.0
"""What a Python with this folder in PYTHONPATH loads as it starts: notes what a test reads besides its own
files, for ../recorded.py, in the folder $RLXC_WATCHED. The file has the name that Python looks for, and a
folder of its own so that nothing else is found beside it.

The folder gets `files`, the files of our programs and sources that the test opened or named in commands;
`unusable`, reasons for which that does not say all; and in `pythons` a line `begins` of each Python and
`ends`, without which nobody knows what it did.
"""
import atexit
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../../.."))
LAYERS = tuple(f"{name}/" for name in ("base", "ir", "passes", "codegen", "compiler"))  # csource.LAYERS
# What the time or memory of a call is judged by: rlxc may say the same and take longer.
MEASURES = re.compile(rb"RLIMIT|rusage|ru_maxrss|perf_counter|monotonic|process_time|time\.time\(|os\.times"
                      rb"|wait4|ulimit|/usr/bin/time|psutil")
CLOCK_OF_DAYS = "rotation.py"
LIBRARY = os.path.dirname(os.__file__) + os.sep
PACKAGES = re.compile("/(?:site|dist)-packages/")  # numpy says "monotonic" of numbers


class Watch:
    def __init__(self, folder):
        self.folder = folder
        self.build = str(pathlib.Path(folder).parents[2])  # it lies in passed/calls
        self.files, self.is_busy = set(), False
        self.paths = re.compile(f"(?:{re.escape(ROOT)}|{re.escape(self.build)})" + r"[^\s'\":,;)]*")
        # What others stand for: the compilers, the interpreter and its packages, the recording itself.
        self.known = tuple(os.path.join(self.build, name) + os.sep for name in
                           ("venv", "tests/kept", os.path.relpath(folder, self.build)))
        self.pid = os.getpid()

    def add(self, name, line):
        with open(os.path.join(self.folder, name), "a", encoding="utf-8", errors="replace") as f:
            f.write(line + "\n")

    def give_up(self, why):
        self.add("unusable", why)

    def note(self, path, is_file_needed=True):
        """A path that is read or named in a command."""
        path = os.path.abspath(path)
        is_built = path.startswith(self.build + os.sep) or path == self.build
        if not (is_built or path.startswith(ROOT + os.sep) or path == ROOT):
            return
        if path.startswith(self.known) or path in self.files:
            return
        name = os.path.relpath(path, ROOT)
        is_source = name.endswith((".c", ".h", ".def")) and name.startswith(LAYERS) \
            and not name.startswith("compiler/metal/")
        if os.path.isdir(path):
            if not is_file_needed and (is_built or name == "." or (name + "/").startswith(LAYERS)):
                self.give_up(f"the folder {name}")
        elif (is_built or is_source) and os.path.exists(path):
            self.files.add(path)
            self.add("files", path)

    def check_python(self, words, environment):
        """Another Python is watched as well, if it loads this."""
        program = os.path.basename(words[0]) if words else ""
        paths = os.fsdecode((os.environ if environment is None else environment).get("PYTHONPATH", ""))
        options = [word for word in words[1:2] if word.startswith("-") and set(word) & set("IES")]
        if program.startswith("python") and (options or paths.split(os.pathsep)[0] != HERE):
            self.give_up("a Python that is not watched: " + " ".join(words[:3]))

    def follow(self, program, words, environment):
        """What takes this one's place: another Python goes on with the test (tests/common/in_venv.py)."""
        words = [os.fsdecode(word) for word in (program, *words[1:])]
        if not os.path.basename(words[0]).startswith("python"):
            self.give_up("os.exec")
        self.check_python(words, environment)
        self.note_command(words[1:], os.getcwd())
        self.end()

    def note_command(self, words, folder):
        for word in words:
            for path in self.paths.findall(word):
                self.note(path, is_file_needed=not word.startswith(("-I", "-L")) and path != word)
            if "/" in word and not word.startswith("/") and os.path.exists(os.path.join(folder, word)):
                self.note(os.path.join(folder, word))

    def hear(self, event, args):
        if self.is_busy:
            return
        self.is_busy = True
        try:
            if event == "open" and isinstance(args[0], (str, bytes)):
                self.note(os.fsdecode(args[0]))
            elif event == "ctypes.dlopen" and isinstance(args[0], str):
                self.note(args[0])
            elif event == "subprocess.Popen":
                words = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
                words = [os.fsdecode(os.fspath(word)) for word in words]
                self.check_python(words, args[3])
                self.note_command(words, os.fsdecode(args[2] or os.getcwd()))
            elif event in ("os.listdir", "os.scandir") and isinstance(args[0], str):
                self.note(args[0], is_file_needed=False)
            elif event == "os.exec":
                self.follow(*args)
            elif event in ("os.system", "os.posix_spawn"):
                self.give_up(event)
        finally:
            self.is_busy = False

    def end(self):
        """Of the test's own modules: none may measure."""
        if os.getpid() != self.pid:
            return
        self.is_busy = True
        loaded = [getattr(module, "__file__", None) for module in sys.modules.values()]
        loaded += [word for word in sys.orig_argv[1:] if os.path.isfile(word)]  # the script is no module now
        paths = {os.path.abspath(name or "/") for name in loaded}
        for path in paths:
            if self.is_own(path) and os.path.basename(path) not in (CLOCK_OF_DAYS, "sitecustomize.py"):
                found = MEASURES.search(pathlib.Path(path).read_bytes())
                if found:
                    self.give_up(f"{os.path.basename(path)} has {found.group().decode()}")
        self.add("pythons", "ends")

    def is_own(self, path):
        return path.endswith(".py") and not PACKAGES.search(path) and not path.startswith(LIBRARY)


def with_files(run, rlxc):
    """subprocess.run that gives rlxc its input as a file, which can be kept, in place of a pipe."""
    def run_with_file(*popen, input=None, **more):
        words = popen[0] if popen else more.get("args")
        if input is None or not isinstance(words, (list, tuple)) or os.fspath(words[0]) != rlxc:
            return run(*popen, input=input, **more)
        with tempfile.TemporaryFile() as f:
            f.write(input if isinstance(input, bytes) else input.encode(more.get("encoding") or "utf-8"))
            f.seek(0)
            return run(*popen, stdin=f, **more)
    return run_with_file


def begin():
    watch = Watch(os.path.realpath(os.environ["RLXC_WATCHED"]))
    watch.add("pythons", "begins")
    subprocess.run = with_files(subprocess.run, os.path.join(watch.folder, "rlxc"))
    atexit.register(watch.end)
    sys.addaudithook(watch.hear)


if "RLXC_WATCHED" in os.environ:
    begin()
