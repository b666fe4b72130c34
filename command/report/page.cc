#include "command/report/page.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace stretto::command {

namespace {

/// JSON in which no "</script>" or "<!--" is left: "<" is written as an escape, which strings alone have need of.
std::string in_script(const nlohmann::ordered_json& data) {
  // Names of folders need not be UTF-8.
  const std::string dump = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(dump.size());
  for (const char c : dump) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string page_of(const PageParts& parts, const nlohmann::ordered_json& data) {
  const std::string json = in_script(data);
  const std::pair<std::string_view, std::string_view> values[] = {{"{{library_style}}", parts.library_style},
                                                                  {"{{style}}", parts.style},
                                                                  {"{{data}}", json},
                                                                  {"{{library}}", parts.library},
                                                                  {"{{script}}", parts.script}};
  // In the order in which the page has them, each once: what has been put in is not looked at again.
  std::string page;
  std::string_view rest = parts.html;
  for (const auto& [name, value] : values) {
    const std::size_t place = rest.find(name);
    page.append(rest.substr(0, place)).append(value);
    rest.remove_prefix(place + name.size());
  }
  return page.append(rest);
}

}  // namespace stretto::command
