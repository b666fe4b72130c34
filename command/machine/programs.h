#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// Runs a program and returns its standard output; its standard error is discarded. `environment` has NAME=VALUE
/// entries on top of this process's own. Errc::unavailable when there is no such program, Errc::aborted when it failed,
/// Errc::timeout when it was ended because `limit` had passed.
Result<std::string> run_program(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                                Duration limit);

/// This program, as a path, and the arguments that it was started with.
std::vector<std::string> own_program();

/// The folder this program lies in.
std::string program_folder();

/// Whether this is `stretto`, or the part of it that trains, and no executable of one's own with its commands.
bool is_stretto();

/// The `stretto` that this is or belongs to; for an executable of one's own the one beside it, or on PATH. Empty if
/// missing.
std::string find_stretto();

/// A file that belongs to this program: beside it in a build, in ../libexec/stretto when installed. Empty if missing.
std::string find_companion(const std::string& name);

/// A script of `stretto`: as find_companion(), and for an executable of one's own that of the `stretto` on PATH.
std::string find_script(const std::string& name);

/// A program on PATH; empty if there is none.
std::string find_on_path(const std::string& name);

/// The Python of the virtual environment that is active, or of the `.venv` nearest above this folder or program; else
/// the one on PATH. Empty if there is none.
std::string find_python();

/// Runs a script that belongs to this program and draws with matplotlib. Returns why it could not; empty where it
/// could.
std::string draw(const std::string& script, const std::vector<std::string>& arguments);

/// The outcome of writing a file and drawing its pictures, as a sentence.
struct Drawn {
  std::string sentence;
  bool pictures = false;
};

/// Writes `csv` and has `script` draw it. `pictures`: the names of the files that the script makes.
Drawn write_and_draw(const std::string& csv, const std::string& content, const std::string& script,
                     const std::string& pictures);

/// For a picture that was asked for, before there is anything to draw. Throws UsageError, which begins with `asked`,
/// where matplotlib is missing.
void require_matplotlib(std::string_view asked);

}  // namespace stretto::command
