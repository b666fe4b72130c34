#include "stretto/train/recipes/options/core_sets.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::string_view kExample = ", as in app=0-2,input=3+4,bg=5";

[[noreturn]] void refuse(const std::string& written, const std::string& expected) {
  throw UsageError(text("cores ", written, ": expected ", expected));
}

std::optional<int> number(std::string_view written) {
  int value = 0;
  const auto [at, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || at != written.data() + written.size() || value < 0) return std::nullopt;
  return value;
}

/// Calls `part` with each of the texts between separators.
template <class Part>
void split(std::string_view written, char separator, Part part) {
  while (true) {
    const std::size_t end = written.find(separator);
    part(written.substr(0, end));
    if (end == std::string_view::npos) return;
    written.remove_prefix(end + 1);
  }
}

/// "0-2" or "3+4" or both.
std::vector<int> cores_of(const std::string& written, std::string_view list, std::span<const int> allowed) {
  std::vector<int> cores;
  split(list, '+', [&](std::string_view range) {
    const std::size_t dash = range.find('-');
    const auto first = number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (!first || !last || *last < *first) refuse(written, text("numbers of cores", kExample));
    for (int core = *first; core <= *last; ++core) {
      if (std::ranges::count(allowed, core) == 0) {
        refuse(written, text("cores that this process may run on; ", core, " is none of them"));
      }
      cores.push_back(core);
    }
  });
  return cores;
}

CoreSets given(const std::string& written, std::span<const int> allowed, int input_threads) {
  CoreSets sets;
  split(written, ',', [&](std::string_view part) {
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    std::vector<int>* set = name == "app"     ? &sets.application
                            : name == "input" ? &sets.input
                            : name == "bg"    ? &sets.background
                                              : nullptr;
    if (set == nullptr || equals == std::string_view::npos || !set->empty()) {
      refuse(written, text("shared, dynamic, or a set for each of app, input and bg", kExample));
    }
    *set = cores_of(written, part.substr(equals + 1), allowed);
  });
  if (sets.application.empty() || sets.background.empty()) {
    refuse(written, text("a set for app and one for bg at least", kExample));
  }
  std::vector<int> all = sets.application;
  all.insert(all.end(), sets.input.begin(), sets.input.end());
  all.insert(all.end(), sets.background.begin(), sets.background.end());
  std::ranges::sort(all);
  if (const auto twice = std::ranges::adjacent_find(all); twice != all.end()) {
    refuse(written, text("sets without a core in common; ", *twice, " is in two of them"));
  }
  if (input_threads > 0 && sets.input.empty()) {
    refuse(written,
           text("a set for input, whose threads (", input_threads, ") else run on the others' cores", kExample));
  }
  return sets;
}

/// One core for the helper thread, the others by the number of threads.
CoreSets cut(std::span<const int> allowed, int application_threads, int input_threads) {
  const int left = static_cast<int>(allowed.size()) - 1;
  CoreSets sets;
  sets.background.push_back(allowed.back());
  int for_input = 0;
  if (input_threads > 0) {
    const int threads = application_threads + input_threads;
    for_input = std::clamp(left * input_threads / threads, 1, left - 1);
  }
  sets.application.assign(allowed.begin(), allowed.begin() + (left - for_input));
  sets.input.assign(allowed.begin() + (left - for_input), allowed.begin() + left);
  return sets;
}

std::string list(std::span<const int> cores) {
  std::string out;
  for (const int core : cores) out += text(out.empty() ? "" : "+", core);
  return out.empty() ? "any" : out;
}

}  // namespace

CoreSets parse_core_sets(const std::string& written, std::span<const int> allowed, int application_threads,
                         int input_threads) {
  STRETTO_CHECK(!allowed.empty(), "no core");
  if (written == "dynamic") return {.lends = true};
  if (!written.empty() && written != "shared") return given(written, allowed, input_threads);
  if (allowed.size() >= 3) return cut(allowed, application_threads, input_threads);
  if (written.empty()) {
    throw UsageError(text("cores: three are needed, for application, input pipeline and background thread, and there ",
                          allowed.size() == 1 ? "is 1" : "are 2",
                          "; expected --cores shared, by which they have some in common"));
  }
  CoreSets sets{.application = {allowed.front()}, .background = {allowed.back()}, .overlap = true};
  if (input_threads > 0) sets.input = {allowed.back()};
  return sets;
}

std::string to_text(const CoreSets& sets) {
  return text("app ", list(sets.application), ", input ", list(sets.input), ", background ",
              sets.lends ? "before the others" : list(sets.background),
              sets.overlap ? " (shared: fewer cores than the three needed)" : "");
}

}  // namespace stretto
