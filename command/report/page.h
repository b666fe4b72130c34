#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stretto::command {

/// The files that a page is made of, put into the program when it is built (cmake/embedded_text.cmake).
struct PageParts {
  std::string_view html;  ///< with the names of the others in braces: {{style}}
  std::string_view style;
  std::string_view script;
  std::string_view library_style;
  std::string_view library;  ///< dygraphs; empty in a build without it
};

PageParts page_parts();

/// A page that needs no other file: `data` as page_data() makes it, in a form in which no text of it can end an element
/// of the page. Requires: there is a library.
std::string page_of(const PageParts& parts, const nlohmann::ordered_json& data);

}  // namespace stretto::command
