#include "stretto/membership/hosts/bulletins/slurm_words.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace stretto {
namespace {

/// Removes `begin` from the beginning of `words`. False: they have another one.
bool take(std::string_view& words, std::string_view begin) {
  if (!words.starts_with(begin)) return false;
  words.remove_prefix(begin.size());
  return true;
}

}  // namespace

std::optional<int> take_number(std::string_view& words) {
  int number = 0;
  const auto [at, error] = std::from_chars(words.data(), words.data() + words.size(), number);
  if (error != std::errc()) return std::nullopt;
  words.remove_prefix(static_cast<std::size_t>(at - words.data()));
  return number;
}

std::string first_node(std::string_view nodes) {
  std::string out;
  while (!nodes.empty() && nodes.front() != ',') {
    if (!take(nodes, "[")) {
      out += nodes.front();
      nodes.remove_prefix(1);
      continue;
    }
    const std::size_t end = nodes.find(']');
    const std::string_view first = nodes.substr(0, std::min(nodes.find_first_of("-,"), end));
    if (end == nodes.npos || first.empty() || first.find_first_not_of("0123456789") != first.npos) return {};
    out += first;  // zeros in front belong to the name
    nodes.remove_prefix(end + 1);
  }
  return out.find(']') == out.npos ? out : std::string();
}

std::optional<int> tasks_on(int node, std::string_view tasks) {
  do {
    const auto number = take_number(tasks);
    if (!number) return std::nullopt;
    int nodes = 1;
    if (take(tasks, "(x")) {
      const auto given = take_number(tasks);
      if (!given || !take(tasks, ")")) return std::nullopt;
      nodes = *given;
    }
    if (!tasks.empty() && tasks.front() != ',') return std::nullopt;
    if (node < nodes) return number;
    node -= nodes;
  } while (take(tasks, ","));
  return std::nullopt;
}

}  // namespace stretto
