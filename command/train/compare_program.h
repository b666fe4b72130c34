#pragma once

#include <string>

#include "command/cli/subcommand.h"

namespace stretto::command {

/// The function of Python that `stretto compare FILE.py:FUNCTION` runs. It takes no argument.
struct PythonFunction {
  std::string file;      ///< absolute
  std::string function;  ///< its name
};

/// Whether a word names a file of Python, with or without a function.
bool names_python_file(const std::string& word);

/// Throws UsageError for what is not FILE.py:FUNCTION, and for a file that is not there.
PythonFunction parse_python_function(const std::string& written);

/// The interpreter: `given`, or else that of the environment variable STRETTO_PYTHON, which the program that lies in
/// the Python package is started with, or else find_python(). Throws UsageError where there is none.
std::string python_interpreter(const std::string& given);

/// Throws UsageError where `interpreter` finds no package stretto, or no such function in the file. Runs neither.
void require_function(const std::string& interpreter, const PythonFunction& function);

/// Puts behind the `compare` of a program what compares training of one's own, once for each algorithm and seed, and
/// puts the reports of its optimizers (stretto/train/loop/loop_report.h) into one table: `compare --program PROGRAM`,
/// and `compare FILE.py:FUNCTION` for a function of Python that trains by stretto.Optimizer.
void add_comparisons_of_own(Subcommand& program);

}  // namespace stretto::command
