#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "command/cli/output.h"
#include "command/pages/pages.h"
#include "stretto/base/words.h"

namespace stretto::command {

namespace {

// What the script does with the tables below. zsh runs it, too: no names that are special there (words, options, path).
// named_after() puts the program's name in place of @program@ and of `stretto` in the names of functions.
constexpr std::string_view kFunctions = R"(
# Sets `candidates` to the whole words that $3 may become behind $2; $1 is what stands there, as in _stretto_takes.
_stretto_candidates() {
  local name begun line kind=-f
  case $1 in
    one) for name in $known; do candidates+=("$2$name"); done ;;
    list)
      begun=${3%"${3##*,}"}
      for name in $known; do
        [[ ,$begun == *,$name,* ]] || candidates+=("$2$begun$name")
      done
      compopt -o nospace 2>/dev/null ;;
    file|folder)
      [[ $1 == file ]] || kind=-d
      while IFS= read -r line; do candidates+=("$2$line"); done < <(compgen $kind -- "$3")
      compopt -o filenames 2>/dev/null ;;
  esac
}

_stretto_complete() {
  local IFS=$' \t\n' command=@program@ option='' dashes='' glue='' place=1 takes known names piece word candidate kept i
  local -a typed=() candidates=()
  # The words as they were typed: bash takes them apart at = and :.
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    piece=${COMP_WORDS[i]}
    if [[ ${#typed[@]} -gt 0 && ( -n $glue || $piece == [=:]* ) ]]; then
      typed[${#typed[@]}-1]+=$piece
    else
      typed+=("$piece")
    fi
    glue=''
    [[ $piece == *[=:] ]] && glue=1
  done

  # Which command it is, and what its last word is: an option without its value, or how many there are without one.
  for ((i = 0; i < ${#typed[@]} - 1; ++i)); do
    word=${typed[i]}
    if [[ -n $dashes ]]; then
      ((++place))
    elif [[ -n $option ]]; then
      option=''
    elif [[ $word == -- ]]; then
      dashes=1
    elif [[ $word == -* ]]; then
      _stretto_takes "$command" "$word"
      [[ $takes == nothing ]] || option=$word
      _stretto_chosen_by "$command" "${word%%=*}"
    elif [[ $place == 1 ]] && _stretto_names "$command $word"; then
      command+=" $word"
    else
      ((++place))
      _stretto_chosen_by "$command" "$word"
    fi
  done

  word=${typed[${#typed[@]}-1]}
  _stretto_names "$command"
  if [[ -n $dashes ]]; then
    _stretto_takes "$command" --
    [[ $takes != nothing ]] || _stretto_takes "$command" "$place"
    _stretto_candidates "$takes" '' "$word"
  elif [[ -n $option ]]; then
    _stretto_takes "$command" "$option"
    _stretto_candidates "$takes" '' "$word"
  elif [[ $word == -*=* ]]; then
    _stretto_takes "$command" "${word%%=*}"
    [[ $takes != nothing ]] || _stretto_takes "$command" "${word%%=*}="
    _stretto_candidates "$takes" "${word%%=*}=" "${word#*=}"
  else
    _stretto_takes "$command" "$place"
    [[ $word != -* && $takes != nothing ]] || { takes=one known=$names; }
    _stretto_candidates "$takes" '' "$word"
  fi

  # Of each candidate the part that takes the place of the last piece.
  kept=${word%"$piece"}
  [[ $piece == [=:] ]] && kept=$word
  COMPREPLY=()
  for candidate in "${candidates[@]}"; do
    [[ $candidate == "$word"* ]] || continue
    [[ $candidate != *: ]] || compopt -o nospace 2>/dev/null
    COMPREPLY+=("${candidate#"$kept"}")
  done
}

complete -F _stretto_complete @program@
)";

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// What _stretto_takes says of an entry.
std::string takes(const std::string& value, const std::vector<std::string>& known) {
  if (!known.empty())
    return fmt::format("takes={} known={}", value == "LIST" ? "list" : "one", in_quotes(join(known, " ")));
  if (value == "FILE" || value == "PROGRAM") return "takes=file";
  if (value == "DIR") return "takes=folder";
  return "takes=any";
}

// The first words, each once.
std::vector<std::string> names_of(const std::vector<HelpEntry>& entries) {
  std::vector<std::string> out;
  for (const HelpEntry& entry : entries) {
    std::string name = entry.name.substr(0, entry.name.find(' '));
    if (std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
  }
  return out;
}

// So that the scripts of two programs have functions of their own.
std::string named_after(const std::string& program, std::string script) {
  std::string function = program;
  for (char& c : function) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  const auto replace = [&script](std::string_view name, const std::string& by) {
    for (std::size_t at = 0; (at = script.find(name, at)) != std::string::npos; at += by.size()) {
      script.replace(at, name.size(), by);
    }
  };
  replace("_stretto", "_" + function);
  replace("@program@", program);
  return script;
}

// The tables of the script: lines of `case` by the command, and by the command and an option or a place.
class Tables {
 public:
  void add(const Help& help) {
    std::vector<std::string> names = help.option_names();
    if (help.option("--help") == nullptr) names.emplace_back("--help");
    for (const HelpSection& section : help.options) {
      for (const HelpEntry& entry : section.entries) add_option(help.name, entry);
    }
    if (!help.commands.empty()) add_place(help.name + " 1", "", names_of(help.commands));
    for (std::size_t i = 0; i < help.positionals.size(); ++i) {
      const HelpEntry& entry = help.positionals[i];
      std::vector<std::string> known = entry.known;
      if (i == 0) known.insert(known.end(), words_that_choose_[help.name].begin(), words_that_choose_[help.name].end());
      add_place(fmt::format("{} {}", help.name, i + 1), entry.name, known, entry.several);
    }
    if (!help.rest.empty()) add_place(help.name + " --", "FILE", {});
    for (const auto& [command, option] : options_that_choose_) {
      if (command == help.name) names.push_back(option);
    }
    names_ += fmt::format("    {}) names={} ;;\n", in_quotes(help.name), in_quotes(join(names, " ")));
  }

  // Of `help`, whose name has an option in it, as "stretto compare --program PROGRAM", a file, as "stretto compare
  // FILE.py:FUNCTION", or a word behind that of a command, as "stretto schedule plan". Comes before add().
  void add_choice(const Help& help) {
    const std::size_t last = help.name.rfind(' ') + 1;
    if (help.commands.empty()) words_that_choose_.try_emplace(help.name);
    if (const auto other = words_that_choose_.find(help.name.substr(0, last == 0 ? 0 : last - 1));
        other != words_that_choose_.end() && std::isalpha(static_cast<unsigned char>(help.name[last])) != 0 &&
        help.name.find('.', last) == std::string::npos) {
      other->second.push_back(help.name.substr(last));
      return;
    }
    if (const std::size_t dot = help.name.find('.', last); dot != std::string::npos) {
      const std::string ending = help.name.substr(dot, help.name.find(':', dot) - dot);
      chosen_ += fmt::format("    {}*{}*) command={} ;;\n", in_quotes(help.name.substr(0, last)), in_quotes(ending),
                             in_quotes(help.name));
      return;
    }
    const std::size_t dashes = help.name.find(" --");
    if (dashes == std::string::npos) return;
    const std::string command = help.name.substr(0, dashes);
    const std::string option = help.name.substr(dashes + 1, help.name.find(' ', dashes + 1) - dashes - 1);
    options_that_choose_.emplace_back(command, option);
    chosen_ += fmt::format("    {}) command={} ;;\n", in_quotes(command + " " + option), in_quotes(help.name));
    add_option(command, *help.option(option));
  }

  std::string to_text() const {
    return fmt::format(
        "# Sets `names` to the options of command $1; fails where it is none.\n"
        "_stretto_names() {{\n  case $1 in\n{}    *) return 1 ;;\n  esac\n}}\n\n"
        "# Sets `takes` to what stands behind option $2 of command $1, or at its place $2: one of `known`, a list of\n"
        "# them, a file, a folder, any text, nothing.\n"
        "_stretto_takes() {{\n  known=''\n  case \"$1 $2\" in\n{}    *) takes=nothing ;;\n  esac\n}}\n\n"
        "# Sets `command` where option $2, or file $2, makes another one of command $1.\n"
        "_stretto_chosen_by() {{\n  case \"$1 $2\" in\n{}  esac\n}}\n",
        names_, takes_, chosen_);
  }

 private:
  void add_option(const std::string& command, const HelpEntry& entry) {
    if (entry.value.empty()) return;
    const std::string key = fmt::format("{} {}{}", command, entry.name, entry.value_may_be_left_out ? "=" : "");
    takes_ += fmt::format("    {}) {} ;;\n", in_quotes(key), takes(entry.value, entry.known));
  }
  // `key` ends with the number of the first of several places.
  void add_place(const std::string& key, const std::string& value, const std::vector<std::string>& known,
                 bool several = false) {
    const std::string pattern = several ? in_quotes(key.substr(0, key.size() - 1)) + "[0-9]*" : in_quotes(key);
    takes_ += fmt::format("    {}) {} ;;\n", pattern, takes(value, known));
  }

  std::string names_, takes_, chosen_;
  std::vector<std::pair<std::string, std::string>> options_that_choose_;  // a command, and its option
  std::map<std::string, std::vector<std::string>> words_that_choose_;     // of each command, not group
};

}  // namespace

std::vector<std::string> completion_shells() {
  return {"bash", "zsh"};
}

std::string completion_script(const Subcommand& program, const std::string& shell) {
  Tables tables;
  for_each_help(program, [&tables](const Help& help) { tables.add_choice(help); });
  for_each_help(program, [&tables](const Help& help) { tables.add(help); });
  std::string bash =
      fmt::format("# Completion of @program@ for {}, printed by `@program@ completion {}` of what --help says.\n\n{}{}",
                  shell, shell, tables.to_text(), kFunctions);
  if (shell != "bash") {
    bash = fmt::format(
        "#compdef @program@\nautoload -U +X bashcompinit && bashcompinit\n{}\n"
        "# Where zsh has loaded this file to complete, the first time is still to be done.\n"
        "[[ ${{funcstack[1]}} != _stretto ]] || _bash_complete -F _stretto_complete\n",
        bash);
  }
  return named_after(program.name, std::move(bash));
}

Subcommand completion_command(const Subcommand& program) {
  struct Chosen {
    std::string shell;
  };
  const auto describe = [](CommandLine& line, Chosen& chosen) {
    line.positional("SHELL", CommandLine::Presence::required, "which one: " + join(completion_shells(), " or "),
                    one_of(chosen.shell, completion_shells()));
    line.example("source <(stretto completion bash)", "In this shell, and in ~/.bashrc in all of them.");
    line.example("source <(stretto completion zsh)", "The same in ~/.zshrc, behind compinit.");
    line.note(
        "An installation has the scripts in share/bash-completion/completions and share/zsh/site-functions, where the "
        "shells look for them below /usr and /usr/local.");
  };
  const auto run = [&program](const Chosen& chosen) {
    print_to(stdout, completion_script(program, chosen.shell));
    return kSuccess;
  };
  return make_command(
      {.name = "completion", .summary = "Prints a script by which a shell completes commands and options."}, Chosen(),
      describe, run);
}

}  // namespace stretto::command
