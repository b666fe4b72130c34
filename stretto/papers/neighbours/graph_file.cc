#include "stretto/papers/neighbours/graph_file.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "stretto/base/error.h"
#include "stretto/observe/whole_file.h"

namespace stretto {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBlanks = " \t\r";
  for (std::size_t at = 0; (at = line.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

void require_connected(const Edges& edges, const std::string& name, int ranks) {
  std::vector<bool> reached(static_cast<std::size_t>(ranks));
  reached[0] = true;
  for (bool any = true; any;) {
    any = false;
    for (const auto& [a, b] : edges) {
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      if (reached[i] == reached[j]) continue;
      reached[i] = reached[j] = any = true;
    }
  }
  std::string apart;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!reached[static_cast<std::size_t>(rank)]) apart += text(apart.empty() ? "" : ", ", rank);
  }
  if (apart.empty()) return;
  throw UsageError(text("graph ", name, " is not connected: no path from rank 0 to rank ", apart,
                        "; expected one between any two of ", ranks, " ranks"));
}

}  // namespace

Edges parse_edges(std::string_view content, const std::string& name, int ranks) {
  std::map<std::pair<int, int>, int> line_of;
  int number = 0;
  while (!content.empty()) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), line.size() + 1));
    ++number;
    const auto words = words_of(line);
    if (words.empty()) continue;
    const auto refuse = [&](const std::string& why) -> UsageError {
      return UsageError(text("graph ", name, ", line ", number, ": ", why));
    };
    int ends[2] = {};
    for (std::size_t i = 0; i < words.size(); ++i) {
      const char* end = words[i].data() + words[i].size();
      const auto read = i < 2 ? std::from_chars(words[i].data(), end, ends[i]) : std::from_chars_result{nullptr, {}};
      if (words.size() != 2 || read.ec != std::errc() || read.ptr != end) {
        throw refuse(text("\"", line, "\" is no edge; expected two ranks such as \"0 1\""));
      }
    }
    const auto [low, high] = std::minmax(ends[0], ends[1]);
    if (low < 0 || high >= ranks) {
      throw refuse(text("there is no rank ", low < 0 ? low : high, "; expected 0 to ", ranks - 1));
    }
    if (low == high) throw refuse(text("an edge from rank ", low, " to itself; expected two different ranks"));
    const auto [known, is_new] = line_of.try_emplace({low, high}, number);
    if (!is_new) throw refuse(text("the edge ", low, ' ', high, " of line ", known->second, " once more"));
  }
  Edges edges;
  for (const auto& entry : line_of) edges.push_back(entry.first);
  require_connected(edges, name, ranks);
  return edges;
}

Edges read_edges(const std::string& path, int ranks) {
  const auto content = read_whole_file(path);
  if (!content || content->empty()) {
    throw UsageError(text("graph ", path, ": ", content ? "the file is empty" : content.error().message,
                          "; expected ring, exponential, bipartite, complete or a file of edges, one \"a b\" a line"));
  }
  return parse_edges(*content, path, ranks);
}

}  // namespace stretto
