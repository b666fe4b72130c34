#include "stretto/predict/model/json_fields.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "stretto/base/error.h"
#include "stretto/base/words/suggest.h"

namespace stretto {

using nlohmann::json;

namespace {

/// Refuses a key that stands twice in one object, of which a parser keeps either.
class SingleKeys {
 public:
  bool operator()(int, json::parse_event_t event, const json& value) {
    switch (event) {
      case json::parse_event_t::object_start: objects_.emplace_back(); break;
      case json::parse_event_t::object_end: objects_.pop_back(); break;
      case json::parse_event_t::key:
        if (!objects_.back().insert(value.get<std::string>()).second) {
          refuse_value("", text("the key ", shown_value(value), " stands twice in one object"));
        }
        break;
      default: break;
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> objects_;  // that are open: their keys so far
};

}  // namespace

void refuse_value(const std::string& where, const std::string& why) {
  throw Failure({Errc::bad_input, where.empty() ? why : text(where, ": ", why)});
}

std::string shown_value(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  constexpr std::size_t kMost = 60;
  const std::string all = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return all.size() <= kMost ? all : all.substr(0, kMost) + "…";
}

JsonFields::JsonFields(const json& object, std::string path, std::span<const std::string> known)
    : object_(object), path_(std::move(path)) {
  if (!object.is_object()) refuse_value(path_, text("expected an object, found ", shown_value(object)));
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      refuse_value(where(key), text("there is no such key; ", suggestion(key, known)));
    }
  }
}

std::string JsonFields::where(const std::string& key) const {
  return path_.empty() ? key : text(path_, ".", key);
}

const json* JsonFields::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> JsonFields::number_if_there(const std::string& key, const NumberRange& range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  const bool in_range = (range.low_included ? number >= range.low : number > range.low) && number <= range.high;
  if (!in_range) refuse_value(where(key), text("expected ", range.expected, "; found ", shown_value(*value)));
  return number;
}

double JsonFields::number(const std::string& key, const NumberRange& range) const {
  const auto number = number_if_there(key, range);
  if (!number) missing(key, range.expected);
  return *number;
}

int JsonFields::count(const std::string& key, int fallback, int most) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= 1 && number <= most) || number != std::floor(number)) {
    refuse_value(where(key), text("expected a whole number from 1 to ", most, "; found ", shown_value(*value)));
  }
  return static_cast<int>(number);
}

bool JsonFields::truth(const std::string& key, bool fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) refuse_value(where(key), text("expected true or false; found ", shown_value(*value)));
  return value->get<bool>();
}

std::string JsonFields::words(const std::string& key, const char* expected) const {
  const json* value = find(key);
  if (value == nullptr) missing(key, expected);
  if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
    refuse_value(where(key), text("expected ", expected, "; found ", shown_value(*value)));
  }
  return value->get<std::string>();
}

const json& JsonFields::list(const std::string& key, const char* of_what) const {
  const json* value = find(key);
  if (value == nullptr) missing(key, text("a list of ", of_what));
  if (!value->is_array()) {
    refuse_value(where(key), text("expected a list of ", of_what, "; found ", shown_value(*value)));
  }
  if (value->empty()) refuse_value(where(key), text("expected a list of ", of_what, "; it is empty"));
  return *value;
}

void JsonFields::missing(const std::string& key, const std::string& expected) const {
  refuse_value(where(key), text("missing; expected ", expected));
}

void JsonFields::refuse_name(const std::string& key, const std::vector<std::string>& known) const {
  refuse_value(where(key), text("expected one of ", join(known), "; found ", shown_value(*find(key))));
}

json parse_json(std::string_view content) {
  try {
    SingleKeys single;
    return json::parse(content, std::ref(single));
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    const std::string_view what = error.what();
    const auto name = what.find("] ");
    refuse_value("", text("expected JSON: ", name == std::string_view::npos ? what : what.substr(name + 2)));
  }
}

}  // namespace stretto
