"""The man page and completion: they have what --help has, and man and the shells take them."""

import pathlib
import re
import shutil
import subprocess
import tempfile

from program import STRETTO, ProgramTest, every_command, main, stretto

# Sources the script, hands it the words as the shell would, and prints what it offers.
BASH = r"""
source "$1"; shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_stretto_complete
printf '%s\n' "${COMPREPLY[@]}"
"""

# A terminal of its own in which a tab is typed behind the words; what zsh then shows ends with the line as it is.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1='' ; fpath=($1 \$fpath); autoload -U compinit && compinit -u -D; bindkey '^X' list-choices"
zpty -w shell "stretto() { print -r -- \"typed \$*\"; }; print re'ady'"
zpty -r shell out '*ready*'
zpty -w -n shell "$2"$'\t\n'
zpty -r shell out '*typed*'
zpty -r shell more $'*\n'
print -r -- "typed${more}"
zpty -d shell
"""


def help_of(command):
    return stretto(*command, "--help").stdout


def options_of(text):
    """The names that stand on the left in --help."""
    return re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)


class Pages(ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.page = stretto("man").stdout
        (cls.folder / "stretto.1").write_text(cls.page, encoding="utf-8")
        for shell, name in (("bash", "stretto.bash"), ("zsh", "_stretto")):
            (cls.folder / name).write_text(stretto("completion", shell).stdout, encoding="utf-8")

    def bash(self, *words):
        """What is offered behind `words`, of which the last is the one that is being typed; bash parts them at = and :."""
        pieces = [piece for word in words for piece in re.findall(r"[=:]+|[^=:]+|^$", word)]
        result = subprocess.run(["bash", "-u", "-c", BASH, "bash", self.folder / "stretto.bash", *pieces],
                                cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), words)
        return result.stdout.split()


class ManPage(Pages):
    def test_has_every_command_and_option(self):
        lines = self.page.replace("\\-", "-").splitlines()
        for command in every_command():
            start = next(i for i, line in enumerate(lines)
                         if re.match(rf"\.SS stretto {' '.join(command)}( [A-Z\[]|$)", line))
            end = next(i for i in range(start + 1, len(lines)) if re.match(r"\.S[SH] ", lines[i]))
            text = help_of(command)
            options = options_of(text)
            for option in options:
                self.assertTrue(any(line.startswith(rf"\fB{option}") for line in lines[start:end]), (command, option))
            for example in re.findall(r"^  (\S.*)$", text.split("\nExamples:\n")[1], re.MULTILINE):
                self.assertIn(example, self.page.replace("\\-", "-").replace("\\(dq", '"').replace("\\(ti", "~"))

    def test_has_the_sections_of_a_manual_page(self):
        titles = re.findall(r"^\.SH (.*)$", self.page, re.MULTILINE)
        self.assertEqual(titles, ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "ALGORITHMS", "WORKLOADS",
                                  "EXIT STATUS", "EXAMPLES", "SEE ALSO"])

    def test_groff_finds_nothing_wrong(self):
        if shutil.which("groff") is None or not any(pathlib.Path("/usr/share/groff").glob("*/tmac/an*.tmac")):
            self.skipTest("groff is not installed, or has no macros for man pages")
        result = subprocess.run(["groff", "-man", "-Tutf8", "-ww", self.folder / "stretto.1"], capture_output=True,
                                text=True, timeout=60, check=True)
        self.assertEqual(result.stderr, "")
        shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", result.stdout)
        for part in ("N ≥ k + 1", "--imbalance SPEC", "stretto schedule allreduce --ranks 8 --format dot | dot -Tsvg"):
            self.assertIn(part, shown)

    def test_mandoc_finds_nothing_wrong(self):
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is not installed")
        result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", self.folder / "stretto.1"],
                                capture_output=True, text=True, timeout=60, check=False)
        wrong = [line for line in result.stdout.splitlines() if "missing date" not in line]  # so that builds are alike
        self.assertEqual(wrong, [])


class Completion(Pages):
    def test_offers_every_command_and_option(self):
        for command in every_command():
            if not command[-1][0].isupper():  # as "compare --program PROGRAM" ends
                offered = self.bash("stretto", *command)
                self.assertIn(command[-1], offered, command)
                self.assertEqual([word for word in offered if not word.startswith(command[-1])], [], command)
            offered = self.bash("stretto", *command, "--")
            self.assertEqual([option for option in options_of(help_of(command)) if option not in offered], [], command)
            self.assertIn("--help", offered)

    def test_commands(self):
        self.assertEqual(self.bash("stretto", "tr"), ["train"])
        self.assertEqual(self.bash("stretto", "--"), ["--help", "--version"])
        self.assertIn("plot", self.bash("stretto", "bench", ""))
        self.assertEqual(self.bash("stretto", "schedule", "pl"), ["plan"])
        self.assertEqual(self.bash("stretto", "schedule", "plan", "pl"), ["plaid"])
        self.assertEqual(self.bash("stretto", "schedule", "allreduce", "--out", "plan", "--ra"), ["--ranks", "--rank"])
        self.assertEqual(self.bash("stretto", "bench", "train", ""), self.bash("stretto", "bench", "-"))

    def test_options(self):
        self.assertEqual(self.bash("stretto", "train", "--alg"), ["--algorithm"])
        self.assertEqual(self.bash("stretto", "train", "vowels", "--max"), ["--max-lag"])
        self.assertIn("--seeds", self.bash("stretto", "check", ""), "where nothing else can stand")
        self.assertEqual(self.bash("stretto", "train", "--ranks", ""), [], "any number")

    def test_values(self):
        self.assertEqual(self.bash("stretto", "train", "vow"), ["vowels"])
        self.assertEqual(self.bash("stretto", "train", "--data", ""), ["shared", "partitioned", "ring", "sampled", "labels"])
        self.assertEqual(self.bash("stretto", "train", "--data=s"), ["shared", "sampled"])
        self.assertEqual(self.bash("stretto", "train", "--data="), ["shared", "partitioned", "ring", "sampled", "labels"])
        self.assertEqual(self.bash("stretto", "train", "--ranks", "4", "pl"), ["plaid"])
        self.assertEqual(self.bash("stretto", "train", "--ranks=4", "pl"), ["plaid"])
        self.assertEqual(self.bash("stretto", "train", "--algorithm", "eager-quorum:2", "pl"), ["plaid"])
        self.assertEqual(self.bash("stretto", "train", "--", "di"), ["digits", "digits-conv", "digits-wide"])
        self.assertEqual(self.bash("stretto", "train", "--", "--"), [])
        self.assertEqual(self.bash("stretto", "completion", ""), ["bash", "zsh"])

    def test_lists(self):
        self.assertEqual(self.bash("stretto", "compare", "vowels", "--algorithms", "sync,eager-q"), ["sync,eager-quorum"])
        self.assertNotIn("sync,sync", self.bash("stretto", "compare", "vowels", "--algorithms", "sync,"))
        self.assertEqual(self.bash("stretto", "bench", "allreduce", "--against=mpich,gl"), ["mpich,gloo"])

    def test_files(self):
        (self.folder / "folder").mkdir(exist_ok=True)
        (self.folder / "file.csv").touch()
        self.assertEqual(self.bash("stretto", "train", "vowels", "--out", "f"), ["folder"])
        self.assertEqual(sorted(self.bash("stretto", "bench", "limits", "--json=f")), ["file.csv", "folder"])
        self.assertEqual(self.bash("stretto", "bench", "limits", "--json", "f"), [], "its value stands behind =")
        for words in (("bench", "plot", "fi"), ("bench", "plot", "a", "fi"), ("bench", "limits", "--csv", "fi")):
            self.assertEqual(self.bash("stretto", *words), ["file.csv"], words)

    def test_a_program_of_your_own(self):
        (self.folder / "mine").touch()
        self.assertEqual(self.bash("stretto", "compare", "--progra"), ["--program"])
        self.assertEqual(self.bash("stretto", "compare", "--program", "min"), ["mine"])
        self.assertNotIn("--pace", self.bash("stretto", "compare", "--program", "mine", "--"))
        self.assertIn("--repeats", self.bash("stretto", "compare", "--program=mine", "--"))
        self.assertEqual(self.bash("stretto", "compare", "--program", "mine", "--", "mi"), ["mine"])

    def test_zsh(self):
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed")
        for words, expected in (("stretto tra", "train"), ("stretto train --alg", "train --algorithm"),
                                ("stretto train --data=part", "train --data=partitioned"),
                                ("stretto compare --algorithms sync,eager-q", "compare --algorithms sync,eager-quorum")):
            result = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", self.folder, words], capture_output=True, text=True,
                                    timeout=60, check=False)
            self.assertEqual(result.stdout.split(), ["typed", *expected.split()], result)

    def test_unknown_shell(self):
        self.assert_rejected(stretto("completion", "tcsh"), "SHELL tcsh", "bash, zsh")
        self.assert_rejected(stretto("completion"), "SHELL is missing", "bash or zsh")


class Built(ProgramTest):
    def test_the_build_leaves_them_beside_the_program(self):
        share = STRETTO.parent.parent / "share"
        for path, command in (("man/man1/stretto.1", ("man",)),
                              ("bash-completion/completions/stretto", ("completion", "bash")),
                              ("zsh/site-functions/_stretto", ("completion", "zsh"))):
            self.assertEqual((share / path).read_text(encoding="utf-8"), stretto(*command).stdout, path)


if __name__ == "__main__":
    main()
