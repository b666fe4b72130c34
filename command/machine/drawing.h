#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::command {

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
