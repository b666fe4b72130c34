#include "stretto/train/replica/arithmetic.h"

#include <sys/utsname.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/machine/host_name.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

/// "x86_64 on h1 (ranks 0 and 1), aarch64 on h2 (rank 2)"; empty where all ranks have the same.
template <class Value>
std::string who_has_which(std::span<const Arithmetic> ranks, const Value& value_of) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;  // in the order of their first ranks
  std::vector<std::string> values;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string value = value_of(ranks[rank]);
    if (std::ranges::count(values, value) == 0) values.push_back(value);
    const std::string where = text(value, " on ", ranks[rank].host);
    auto group = std::ranges::find(groups, where, &std::pair<std::string, std::vector<int>>::first);
    if (group == groups.end()) group = groups.insert(group, {where, {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (values.size() < 2) return {};
  std::string all;
  for (const auto& [where, of] : groups) all += text(all.empty() ? "" : ", ", where, " (", ranks_in_words(of), ')');
  return all;
}

}  // namespace

Arithmetic Arithmetic::here(const LibraryCode& library) {
  utsname system{};
  (void)::uname(&system);
  return {.host = host_name(), .architecture = system.machine, .library = library};
}

std::string Arithmetic::without_host() const {
  return text(architecture, '\n', library.name, '\n', library.threads);
}

std::string Arithmetic::encoded() const {
  return text(host, '\n', without_host());
}

Arithmetic Arithmetic::decoded(const std::string& text) {
  Arithmetic found;
  std::istringstream lines(text);
  std::getline(lines, found.host);
  std::getline(lines, found.architecture);
  std::getline(lines, found.library.name);
  lines >> found.library.threads;
  return found;
}

std::string torch_code(const std::string& capability) {
  return capability == "AVX2" || capability == "AVX512" ? "AVX2 or AVX512" : capability;
}

std::string why_replicas_may_part(std::span<const Arithmetic> ranks) {
  const std::string machines = who_has_which(ranks, [](const Arithmetic& rank) { return rank.architecture; });
  if (!machines.empty()) {
    return text("processors of several architectures round differently, so replicas may part: ", machines,
                "; expected hosts of one architecture");
  }
  const std::string code = who_has_which(ranks, [](const Arithmetic& rank) { return rank.library.name; });
  if (code.empty()) return {};
  return text("hosts compute with code that rounds differently, so replicas may part: Torch's for ", code,
              "; ATEN_CPU_CAPABILITY=default on all x86 hosts makes it the same");
}

std::string why_replicas_have_parted(std::span<const Arithmetic> ranks) {
  std::string why = why_replicas_may_part(ranks);
  const std::string threads = who_has_which(ranks, [](const Arithmetic& rank) {
    return text(rank.library.threads, rank.library.threads == 1 ? " thread" : " threads");
  });
  if (threads.empty()) return why;
  return text(why, why.empty() ? "" : "; ", "large sums are split among threads: ", threads,
              "; OMP_NUM_THREADS makes them as many on all");
}

}  // namespace stretto
