#pragma once

#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// Runs a program and returns its standard output; its standard error is discarded. `environment` has NAME=VALUE
/// entries on top of this process's own. Errc::unavailable when there is no such program, Errc::aborted when it failed,
/// Errc::timeout when it was ended because `limit` had passed.
Result<std::string> run_program(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                                Duration limit);

/// The folder this program lies in.
std::string program_folder();

/// A file that belongs to this program: beside it in a build, in ../libexec/stretto when installed. Empty if missing.
std::string find_companion(const std::string& name);

/// A script of `stretto`: as find_companion(), and for an executable of one's own that of the `stretto` on PATH.
std::string find_script(const std::string& name);

/// A program on PATH; empty if there is none.
std::string find_on_path(const std::string& name);

/// The Python of the virtual environment that is active, or of the `.venv` nearest above this folder or program; else
/// the one on PATH. Empty if there is none.
std::string find_python();

}  // namespace stretto::command
