# SPDX-License-Identifier: Apache-2.0
"""Networks on microcontrollers that QEMU emulates: what tests/firmware and tools/bench/mcu share. A
program is linked as for a board (examples/firmware: start.c, board.ld) with a network, its inputs and the
outputs that it must give; QEMU's plugin (compiler/board/count.c) counts its instructions by function."""

import dataclasses
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOARD, FIRMWARE = ROOT / "compiler/board", ROOT / "examples/firmware"
TIME_LIMIT = 120
NEWLIB = "/usr/include/newlib"  # headers for any machine: clang has no C library for RISC-V


@dataclasses.dataclass
class Machine:
    """A row of emulators.def, with the flags of cpus.def."""
    cpu: str
    qemu: str
    board: str
    memory: list  # flash at, its bytes, RAM at, its bytes
    flags: list

    def qemu_command(self):
        more = ["-bios", "none"] if "riscv" in self.qemu else []
        return [self.qemu, "-M", *self.board.split(), "-nographic", *more, "-semihosting-config",
                "enable=on,target=native"]


@dataclasses.dataclass
class Figures:
    """What a program said, and what was counted. counts: {function: (instructions, cycles, calls)} of a run
    of the network; None without the plugin."""
    said: dict
    status: int
    counts: dict = None

    def total(self, which):
        return sum(row[which] for row in self.counts.values())


def rows_of(path, kind, columns):
    """The rows of a .def file: texts and numbers, as Python's."""
    text = re.sub(r"^//.*$", "", path.read_text(encoding="ascii"), flags=re.M)
    found = re.findall(kind + r'\(((?:"[^"]*"|[^()"])*)\)', text)
    rows = [re.findall(r'"([^"]*)"|([^\s,][^,]*)', row) for row in found]
    return [[quoted or plain.strip() for quoted, plain in row[:columns]] for row in rows]


def machines():
    flags = {row[0]: row[1] for row in rows_of(ROOT / "codegen/target/cpus.def", "CPU", 2)}
    rows = rows_of(BOARD / "emulators.def", "EMULATED", 8)
    return {cpu: Machine(cpu, qemu, board, memory, (flags[cpu] + " " + more).split())
            for cpu, qemu, board, *memory, more in rows}


def check(command, **more):
    """What it prints. Ends the program where it fails."""
    command = [str(c) for c in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


# --- compilers -----------------------------------------------------------------------------------------

def compilers(machine):
    """{name: command} of those that are here, such as gcc-12 and clang-14, for compiling and for linking."""
    is_arm = "arm" in machine.qemu
    gcc, target = ("arm-none-eabi-gcc", "arm-none-eabi") if is_arm else ("riscv64-unknown-elf-gcc",
                                                                         "riscv32-unknown-elf")
    found = {}
    if shutil.which(gcc):
        found["gcc-" + check([gcc, "-dumpversion"]).split(".")[0]] = [gcc]
    if shutil.which("clang") and (is_arm and shutil.which(gcc) or shutil.which("ld.lld")):
        headers = "/usr/lib/arm-none-eabi/include" if is_arm else NEWLIB
        version = re.search(r"version (\d+)", check(["clang", "--version"])).group(1)
        found["clang-" + version] = ["clang", f"--target={target}", "-isystem", headers]
    return found


def link_command(machine, compiler):
    """The command, and libraries behind the objects. gcc links for Arm, since it knows where newlib is."""
    if "arm" in machine.qemu:
        return ["arm-none-eabi-gcc", *machine.flags, "--specs=nano.specs"], ["-lm"]
    is_clang = compiler[0] == "clang"
    return ([*compiler, *machine.flags, "-nostdlib", *(["-fuse-ld=lld"] if is_clang else [])],
            [] if is_clang else ["-lgcc"])


def section_sizes(objects):
    """{".text": bytes ...} of object files, by what their sections begin with."""
    sizes = {}
    for line in check(["size", "-A", *objects]).splitlines():
        found = re.match(r"(\.(?:text|rodata|data|bss|srodata|sdata|sbss))\S* +(\d+)", line)
        if found:
            name = found.group(1).replace(".s", ".", 1)
            sizes[name] = sizes.get(name, 0) + int(found.group(2))
    return sizes


# --- programs ------------------------------------------------------------------------------------------

def bytes_of(name, data):
    """A C file with an array of bytes and its size."""
    return (f"extern const unsigned char {name}[];\nconst unsigned char {name}[] = "
            f"{{{', '.join(map(str, data))}}};\n"
            f"extern const unsigned {name}_bytes;\nconst unsigned {name}_bytes = {len(data)};\n")


class Rig:
    """Builds and runs programs in a folder."""

    def __init__(self, rlxc, work):
        self.rlxc, self.work = rlxc, pathlib.Path(work)
        self.plugin = self.build_plugin()

    def build_plugin(self):
        """None: this machine's QEMU takes no plugins."""
        program = next((m.qemu for m in machines().values() if shutil.which(m.qemu)), None)
        if program is None or "-plugin" not in check([program, "-help"]):
            return None
        check(["cc", "-O2", "-shared", "-fPIC", "-o", self.work / "count.so", BOARD / "count.c"])
        return self.work / "count.so"

    def compile_network(self, model, machine, more=()):
        """The emitted C of a network, as net.c in a folder of its own."""
        folder = self.work / f"{pathlib.Path(model).stem}-{machine.cpu}"
        check([self.rlxc, "compile", model, "--cpu", machine.cpu, "-o", folder, "--name", "net", "--weights",
               "rodata", "--one-file", "--no-validate", *more])
        return folder

    def build(self, folder, machine, compiler, sources, more=("-O2",)):
        """An ELF file for the board with the network of a folder, and the object file of the network."""
        strict = ["-Wall", "-Wextra", "-Werror", "-I", folder, *more]
        program = self.link(folder, machine, compiler, [folder / "net.c", *sources], strict)
        return program, folder / f"net.c-{compiler[0]}.o"

    def link(self, folder, machine, compiler, sources, options):
        """An ELF file of sources and libraries, with start.c."""
        flags = [*machine.flags, "-ffunction-sections", "-fdata-sections", "-I", FIRMWARE, *options]
        objects, program = [], folder / f"net-{compiler[0]}.elf"
        for source in (*sources, FIRMWARE / "start.c"):
            if source.suffix != ".a":
                objects.append(folder / f"{source.name}-{compiler[0]}.o")
                plain = [] if source.suffix == ".c" else ["-fno-exceptions", "-fno-rtti"]
                check([*compiler, *flags, *plain, "-c", source, "-o", objects[-1]])
        command, more = link_command(machine, compiler)
        libraries = [source for source in sources if source.suffix == ".a"] + more
        places = ",".join(f"--defsym={name}={at}" for name, at in
                          zip(("flash_at", "flash_bytes", "ram_at", "ram_bytes"), machine.memory))
        check([*command, *objects, *libraries, "-nostartfiles", "-Wl,--gc-sections", "-T",
               FIRMWARE / "board.ld", f"-Wl,{places}", "-o", program])
        return program

    def run(self, program, machine):
        """Figures of a program that prints lines `NAME NUMBER`."""
        counted = self.work / "counts"
        plugin = ["-plugin", f"{self.plugin},out={counted},model={machine.cpu}"] if self.plugin else []
        done = subprocess.run([*machine.qemu_command(), *plugin, "-kernel", program], capture_output=True,
                              text=True, timeout=TIME_LIMIT)
        said = dict(line.split(" ", 1) for line in (done.stdout + done.stderr).splitlines() if " " in line)
        figures = Figures(said, done.returncode)
        if self.plugin:
            rows = [line.split() for line in counted.read_text().splitlines()]
            figures.counts = {name.split(".")[0]: (int(insns), int(cycles), int(calls))
                              for phase, insns, cycles, calls, name in rows if phase == "1"}
        return figures
