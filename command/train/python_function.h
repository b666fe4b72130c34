#pragma once

#include <string>

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

}  // namespace stretto::command
