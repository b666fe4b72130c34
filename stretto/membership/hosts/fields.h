#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"

namespace stretto {

/// An object of JSON as one line, whatever bytes its texts have.
std::string line_of(const nlohmann::json& object);

/// Reads the fields of an object of JSON that another process has written. A field that is missing, of another type or
/// out of its range is a fault, and reads as 0 or empty; the first fault counts.
class Fields {
 public:
  /// Of any text.
  explicit Fields(std::string_view line);
  explicit Fields(const nlohmann::json& object);
  ~Fields();
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  bool has(const char* name) const;
  /// A whole number from `least` to `most`.
  template <class T>
  T number(const char* name, T least, T most) {
    if constexpr (std::is_unsigned_v<T>) return static_cast<T>(unsigned_number(name, least, most));
    return static_cast<T>(signed_number(name, static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)));
  }
  std::uint64_t count(const char* name) { return unsigned_number(name, 0, std::numeric_limits<std::uint64_t>::max()); }
  std::string words(const char* name);
  bool flag(const char* name);
  /// Texts by their names.
  std::map<std::string, std::string> texts(const char* name);
  /// Calls `use` for each of the `length` objects in a list.
  void list(const char* name, int length, FunctionRef<void(Fields&)> use);

  void fault(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }
  /// Returns what has been read, of a type that names itself in faults (kName).
  template <class Words>
  Result<Words> end(Words words) const {
    if (fault_.empty()) return words;
    return Error{Errc::bad_input, Words::kName + (" cannot be read: " + fault_)};
  }

 private:
  const nlohmann::json& at(const char* name);
  std::uint64_t unsigned_number(const char* name, std::uint64_t least, std::uint64_t most);
  std::int64_t signed_number(const char* name, std::int64_t least, std::int64_t most);

  const std::unique_ptr<const nlohmann::json> object_;
  std::string fault_;
};

}  // namespace stretto
