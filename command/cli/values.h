#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto::command {

/// Takes the text given for an option; `option` is its name, for the message. Throws UsageError of the form
/// "--ranks 0: expected a number from 1 to 1024, as in --ranks 4".
class Setter {
 public:
  using Function = std::function<void(std::string_view option, const std::string& text)>;

  template <class F, class = std::invoke_result_t<F&, std::string_view, const std::string&>>
  Setter(F set) : set_(std::move(set)) {}  // NOLINT(google-explicit-constructor): a lambda is one
  /// `known`: the values there are, or the beginnings of them, for completion.
  Setter(std::vector<std::string> known, Function set) : set_(std::move(set)), known_(std::move(known)) {}

  void operator()(std::string_view option, const std::string& text) const { set_(option, text); }
  /// Empty where there is no list of them.
  const std::vector<std::string>& known() const { return known_; }

 private:
  Function set_;
  std::vector<std::string> known_;
};

/// The UsageError for a value: names the option, the value, the values expected, and one that would work.
[[noreturn]] void reject(std::string_view option, std::string_view text, std::string_view expected,
                         std::string_view example = {});

std::int64_t parse_integer(std::string_view option, const std::string& text, std::int64_t low, std::int64_t high,
                           std::string_view example);
/// Finite.
double parse_number(std::string_view option, const std::string& text, double low, double high,
                    std::string_view example);
/// "200ms", "50us", "1.5s" (base/clock.h).
Duration parse_duration(std::string_view option, const std::string& text, std::string_view example);
/// "64", "4KiB", "4 MiB", "1GiB"; the letters alone mean the same. "4kB", "4MB", "1GB" are powers of a thousand.
std::uint64_t parse_bytes(std::string_view option, const std::string& text, std::string_view example);

/// A list of them, "64,4KiB": each at least one float32 and no part of one, in bytes.
std::vector<std::uint64_t> parse_float32_sizes(std::string_view option, const std::string& list);

/// "64 B", "4 MiB".
std::string to_bytes(std::uint64_t bytes);

/// The parts between separators. An empty text has none.
std::vector<std::string> split_list(std::string_view text, char separator = ',');

/// The same for a list of policies or algorithms, one of which has a comma of its own: "solo,deadline:4,20ms".
std::vector<std::string> split_policies(std::string_view text);

/// A list of names that are in `known`, each once. Throws UsageError, with a suggestion for a misspelt one.
std::vector<std::string> parse_names(std::string_view option, const std::string& list,
                                     const std::vector<std::string>& known);

/// Setters for common kinds of options; `target` must outlive the parsing.
Setter into(int& target, int low, int high, std::string example);
Setter into(std::uint64_t& target, std::uint64_t low, std::string example);
Setter into(double& target, double low, double high, std::string example);
Setter into(Duration& target, std::string example);
Setter into(std::string& target);
/// The same, with what is known() about the text; any other text is taken, too.
Setter into(std::string& target, std::vector<std::string> known);
/// One of `known`, with a suggestion for a misspelt one.
Setter one_of(std::string& target, std::vector<std::string> known);

}  // namespace stretto::command
