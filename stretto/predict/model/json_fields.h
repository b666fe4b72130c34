#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stretto {

/// The input is refused: throws Failure (Errc::bad_input). `where`: "workers[1].layers[3].forward"; empty: the whole.
[[noreturn]] void refuse_value(const std::string& where, const std::string& why);

/// The value for a message, on one line.
std::string shown_value(const nlohmann::json& value);

/// Which numbers a field may have.
struct NumberRange {
  double low;
  bool low_included;
  double high;
  const char* expected;  ///< in words, with an example
};

/// Sums of such times stay far from where doubles end.
inline constexpr double kLongestSeconds = 1e9;
inline constexpr NumberRange kSeconds{0, true, kLongestSeconds, "seconds from 0 to 1e9, as in 0.04"};

/// The fields of one object of an input that a person may have written. A field that is null counts as missing. What
/// is not as expected is refused (refuse_value()) with its place, what was expected, and the value.
class JsonFields {
 public:
  /// `path`: of the object, empty for the whole. Refuses keys that are not `known`. `object` must outlive this.
  JsonFields(const nlohmann::json& object, std::string path, std::span<const std::string> known);

  /// The field as messages name it.
  std::string where(const std::string& key) const;
  /// Null where it is missing.
  const nlohmann::json* find(const std::string& key) const;
  std::optional<double> number_if_there(const std::string& key, const NumberRange& range) const;
  double number(const std::string& key, const NumberRange& range) const;
  /// A whole number, at least 1.
  int count(const std::string& key, int fallback, int most = 1'000'000'000) const;
  bool truth(const std::string& key, bool fallback) const;
  /// A text that is not empty.
  std::string words(const std::string& key, const char* expected) const;
  /// A list with at least one element.
  const nlohmann::json& list(const std::string& key, const char* of_what) const;
  /// Refuses the object for lack of a field.
  [[noreturn]] void missing(const std::string& key, const std::string& expected) const;

  /// One of `values`, by its name.
  template <class T>
  T one_of(const std::string& key, const std::vector<std::pair<std::string, T>>& values, T fallback) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return fallback;
    std::vector<std::string> known;
    for (const auto& [name, meaning] : values) {
      if (*value == name) return meaning;
      known.push_back(name);
    }
    refuse_name(key, known);
  }

 private:
  [[noreturn]] void refuse_name(const std::string& key, const std::vector<std::string>& known) const;

  const nlohmann::json& object_;
  const std::string path_;
};

/// The value that `content` is. Refuses (refuse_value()) what is no JSON, and a key that stands twice in one object, of
/// which a parser keeps either.
nlohmann::json parse_json(std::string_view content);

}  // namespace stretto
