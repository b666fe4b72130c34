#pragma once

#include <string>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto {

/// A data file as a Python package bundles it. Packages are never imported: the file is read where pip has put it.
struct BundledFile {
  std::string_view path;      ///< below site-packages
  std::string_view expected;  ///< its content: "270 training utterances of JapaneseVowels"
  std::string_view package;   ///< the package for pip: "sktime==1.2.0"
};

/// Where the file lies. With `directory`, or else with the environment variable STRETTO_DATA, only there: below it as
/// below site-packages, or in it under its bare name. Otherwise the site-packages of the active virtual environment,
/// then of each `.venv` beside the program or the working directory or in a folder above them.
/// Errc::bad_input names the file, the places where it was looked for, and the pip command that gets it.
Result<std::string> find_bundled(const BundledFile& file, const std::string& directory = {});

/// The file cannot be used; `problem` begins with its path and says why. Adds its expected content and how to get it.
Error unusable(const BundledFile& file, std::string_view problem);

}  // namespace stretto
