#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "command/predict/advice.h"
#include "command/report/recorded_run.h"
#include "stretto/base/words.h"

namespace stretto::command {

/// The numbers as they lie in memory, which a page decodes into an array without reading them one by one; x86 and ARM
/// are little-endian, as it expects.
template <class Number>
std::string base64_of(std::span<const Number> numbers) {
  return base64(std::as_bytes(numbers));
}

/// Predictions for other algorithms with the step times of a run.
struct ReportAdvice {
  std::string run;       ///< whose
  std::string messages;  ///< how long they take, in words
  Recommendation recommendation;
};

/// How many steps of all runs together a page carries one by one. Of longer runs some that follow one another are drawn
/// as one: their phases are added up.
inline constexpr std::size_t kMostSteps = 1 << 20;

/// All that the page draws, as command/report/page reads it: numbers that are few as JSON, long columns as base64 of
/// little-endian numbers. `advice`: none, or why there is none in `no_advice`.
nlohmann::ordered_json page_data(std::span<const RecordedRun> runs, const std::optional<ReportAdvice>& advice,
                                 const std::string& no_advice, std::size_t most_steps = kMostSteps);

/// The files that a page is made of, put into the program when it is built (cmake/embed_page.cmake).
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
