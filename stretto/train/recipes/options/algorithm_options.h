#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stretto {

/// Options of some algorithms only, by name, as they are written: {{"tau", "20"}, {"group-order", "fixed"}}.
/// RecipeInfo::options says which algorithm takes which.
class AlgorithmOptions {
 public:
  AlgorithmOptions() = default;  ///< none
  /// Throws UsageError for a value that does not fit an option of algorithm_options().
  AlgorithmOptions(std::initializer_list<std::pair<std::string, std::string>> values);

  /// Throws UsageError as the constructor does.
  void set(const std::string& name, const std::string& value);
  /// Whether there is a value for it.
  bool given(std::string_view name) const { return values_.contains(name); }
  /// Drops those that are not among `names`.
  void keep_only(std::span<const std::string_view> names);

  /// The value of an option, or `fallback` where it is not given. Throws UsageError for a value that is no whole number
  /// from 0, or no number.
  std::uint64_t count(std::string_view name, std::uint64_t fallback) const;
  double number(std::string_view name, double fallback) const;                 ///< as count()
  std::string word(std::string_view name, const std::string& fallback) const;  ///< any text

  /// All that are given, in the order of their names.
  const std::map<std::string, std::string, std::less<>>& values() const { return values_; }
  /// "group-order=fixed tau=20".
  std::string to_string() const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// An option of some of the algorithms, as --help shows it.
struct AlgorithmOption {
  /// The kind of an option's value.
  enum class Kind {
    count,   ///< a whole number
    number,  ///< any number
    word,    ///< one of AlgorithmOption::words, or any text where there are none
    time,    ///< "200ms"
    bytes,   ///< "4MiB"
  };
  std::string_view name;                         ///< without dashes
  std::string_view value;                        ///< "N"
  std::string_view help;                         ///< its meaning, its default, and what other values cost
  std::string_view example;                      ///< a value
  Kind kind = Kind::word;                        ///< decides which of the following count
  double least = 0;                              ///< count, number, time (in seconds), bytes
  double most = 1e18;                            ///< count, number
  std::span<const std::string_view> words = {};  ///< word: the values there are; empty: any text
};

/// All of them. To add one to the library, add its row here, and its name to the algorithms that take it (recipes.cc).
/// Valid until register_recipe() adds more.
std::span<const AlgorithmOption> algorithm_options();
/// \cond inner
/// For register_recipe().
void register_algorithm_option(const AlgorithmOption& option);
/// \endcond
/// Throws UsageError: "tau 0: expected a whole number from 1, as in tau 10"; `written`: instead of the name.
void check_value(const AlgorithmOption& option, const std::string& value, std::string_view written = {});

}  // namespace stretto
