#include "stretto/membership/hosts/fields.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  if (value.is_array()) return text("a list of ", value.size());
  return value.is_number() || value.is_boolean() ? value.dump() : text("of type ", value.type_name());
}

}  // namespace

std::string line_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Fields::Fields(std::string_view line) : Fields(json::parse(line, nullptr, /*allow_exceptions=*/false)) {}

Fields::Fields(const json& object) : object_(std::make_unique<const json>(object)) {
  if (!object_->is_object()) fault("it is no object of JSON");
}

Fields::~Fields() = default;

bool Fields::has(const char* name) const {
  return object_->contains(name);
}

const json& Fields::at(const char* name) {
  const auto found = object_->is_object() ? object_->find(name) : object_->end();
  if (found != object_->end()) return *found;
  fault(text("it lacks '", name, '\''));
  static const json none;
  return none;
}

std::uint64_t Fields::unsigned_number(const char* name, std::uint64_t least, std::uint64_t most) {
  const json& value = at(name);
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (least <= number && number <= most) return number;
  }
  fault(text('\'', name, "' is ", shown(value), "; expected a whole number from ", least, " to ", most));
  return 0;
}

std::int64_t Fields::signed_number(const char* name, std::int64_t least, std::int64_t most) {
  const json& value = at(name);
  const bool fits = !value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>());
  if (value.is_number_integer() && fits) {
    const auto number = value.get<std::int64_t>();
    if (least <= number && number <= most) return number;
  }
  fault(text('\'', name, "' is ", shown(value), "; expected a whole number from ", least, " to ", most));
  return 0;
}

std::string Fields::words(const char* name) {
  const json& value = at(name);
  if (value.is_string()) return value.get<std::string>();
  fault(text('\'', name, "' is ", shown(value), "; expected a text"));
  return {};
}

bool Fields::flag(const char* name) {
  const json& value = at(name);
  if (value.is_boolean()) return value.get<bool>();
  fault(text('\'', name, "' is ", shown(value), "; expected true or false"));
  return false;
}

std::map<std::string, std::string> Fields::texts(const char* name) {
  std::map<std::string, std::string> found;
  const json& value = at(name);
  if (!value.is_object()) {
    fault(text('\'', name, "' is ", shown(value), "; expected texts by their names"));
    return found;
  }
  Fields inner(value);
  for (const auto& [key, unused] : value.items()) found[key] = inner.words(key.c_str());
  if (!inner.fault_.empty()) fault(text(name, ": ", inner.fault_));
  return found;
}

void Fields::list(const char* name, int length, FunctionRef<void(Fields&)> use) {
  const json& value = at(name);
  if (!value.is_array() || !std::cmp_equal(value.size(), length)) {
    return fault(text('\'', name, "' is ", shown(value), "; expected a list of ", length));
  }
  for (int i = 0; i < length; ++i) {
    Fields inner(value[static_cast<std::size_t>(i)]);
    use(inner);
    if (!inner.fault_.empty()) return fault(text(name, '[', i, "]: ", inner.fault_));
  }
}

}  // namespace stretto
