#include "stretto/ordering/runtime/fused_way.h"

#include <algorithm>

#include "stretto/base/words.h"

namespace stretto {
namespace {

/// The line at `at`, which is moved behind it; none at the end.
std::string_view line_at(std::string_view text, std::size_t& at) {
  if (at >= text.size()) return "nothing";
  const std::size_t end = std::min(text.find('\n', at), text.size());
  const std::string_view line = text.substr(at, end - at);
  at = end + 1;
  return line;
}

}  // namespace

std::string_view cut_composition(const std::shared_ptr<const std::string>& tensors, std::size_t at_most) {
  return tensors == nullptr ? std::string_view() : std::string_view(*tensors).substr(0, at_most);
}

std::string composition_difference(int rank, std::string_view mine, int other, std::string_view theirs) {
  std::size_t at = 0, at_theirs = 0;
  for (int place = 0; at < mine.size() || at_theirs < theirs.size(); ++place) {
    const std::string_view line = line_at(mine, at), their_line = line_at(theirs, at_theirs);
    if (line == their_line) continue;
    return text("at place ", place, " rank ", rank, " has ", line, ", rank ", other, " has ", their_line);
  }
  return text("rank ", rank, " and rank ", other, " differ in what is too long to be shown, or in a buffer before");
}

}  // namespace stretto
