#include "stretto/base/words/json_fault.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "stretto/base/text.h"

namespace stretto {
namespace {

/// Between `before` and the next `after`; empty where they are not there.
std::string_view between(std::string_view whole, std::string_view before, std::string_view after) {
  const auto from = whole.find(before);
  if (from == std::string_view::npos) return {};
  const std::string_view rest = whole.substr(from + before.size());
  return rest.substr(0, rest.find(after));
}

}  // namespace

std::string json_fault(const std::exception& error) {
  const std::string_view what = error.what();
  const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error);
  if (json == nullptr) return std::string(what);
  constexpr int kNoJson = 101, kNoSuchType = 302, kNoSuchKey = 403, kTooLarge = 406;
  switch (json->id) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing …"
    case kNoJson: {
      const std::string_view at = between(what, "parse error at ", ": ");
      const bool ended = what.find("unexpected end of input") != std::string_view::npos;
      return ended ? text("it ends within its JSON, at ", at) : text(at, " is no JSON");
    }
    // "… type must be number, but is string"
    case kNoSuchType: {
      const std::string_view found = between(what, "but is ", "\n");
      if (!found.empty()) return text("a value is ", found, "; expected ", between(what, "type must be ", ","));
      break;
    }
    // "… key 'ranks' not found"
    case kNoSuchKey: return text("it lacks '", between(what, "key '", "'"), "'");
    case kTooLarge: return "a number is too large";
    default: break;
  }
  // "… cannot use at() with array"
  const std::string_view found = between(what, "() with ", "\n");
  if (!found.empty()) return text("a value is ", found, "; expected an object");
  return "a value is not what is expected there";
}

}  // namespace stretto
