#include "stretto/base/description.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr std::size_t kMaxWords = 200;

/// Takes the first line off `lines`; an empty one where there is none.
std::string_view next_line(std::string_view& lines) {
  const std::size_t end = lines.find('\n');
  const std::string_view line = lines.substr(0, end);
  lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  return line;
}

}  // namespace

std::uint64_t hash_of(std::string_view description) {
  return XXH3_64bits(description.data(), description.size());
}

std::string words_of(std::string_view description) {
  const std::string_view words = next_line(description);
  if (words.size() <= kMaxWords) return std::string(words);
  return std::string(words.substr(0, kMaxWords)) + "...";
}

std::string disagreement_between(int rank, std::string_view mine, int other, std::string_view theirs) {
  std::string message =
      text("rank ", rank, " runs \"", words_of(mine), "\" where rank ", other, " runs \"", words_of(theirs), '"');
  next_line(mine);
  next_line(theirs);
  while (!mine.empty() || !theirs.empty()) {
    const std::string my_item = words_of(mine), their_item = words_of(theirs);
    if (next_line(mine) == next_line(theirs)) continue;
    // The last item of a text that was cut may be half of one: the words of both, above, must do.
    if (my_item.empty() || their_item.empty()) break;
    message += text("; rank ", rank, " has \"", my_item, "\", rank ", other, " has \"", their_item, '"');
    break;
  }
  return message + "; every rank must make the same collectives in the same order";
}

}  // namespace stretto
