#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "workloads/sequence_data.h"

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

/// A table of numbers.
struct CsvTable {
  std::size_t columns = 0;
  std::vector<float> values;  ///< [row][column]

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  const float* row(std::size_t i) const { return values.data() + i * columns; }
};

/// Comma-separated numbers, as many on each line, no header. Errc::bad_input names `name` and the line.
Result<CsvTable> parse_csv(std::string_view content, std::string_view name);

/// Reads the text of a .ts file as the UEA & UCR archive writes it: `#` comments, a header of `@key value` lines with
/// `@classLabel true …` and perhaps `@dimensions n` or `@univariate true`, `@data`, then one line a series with
/// dimensions between colons, numbers between commas, and the label last. Series may differ in length, the dimensions
/// of one may not. Not supported, and refused: time stamps, missing values, files without class labels. Errc::bad_input
/// names `name`, the line, its text and the text expected.
Result<Sequences> parse_ts(std::string_view content, std::string_view name);

}  // namespace stretto
