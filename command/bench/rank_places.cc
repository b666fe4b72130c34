#include "command/bench/rank_places.h"

#include <fmt/format.h>

#include "command/statistics/comparison.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

constexpr int kMostHosts = 64;
constexpr const char* kExample = "hosts:4x2";

}  // namespace

void RankPlaces::describe(CommandLine& line, const std::string& more) {
  line.option("--ranks", "LIST", "How many processes, where --over does not say so. Default " + default_ + more + ".",
              into(ranks_));
  describe_hosts(line);
}

void RankPlaces::describe_hosts(CommandLine& line) {
  line.option("--over", "hosts:NxR",
              "R ranks on each of N hosts, by TCP between them: network namespaces of this machine, which root can "
              "make. Default: all ranks on this host.",
              Setter({"hosts:"}, [this](std::string_view option, const std::string& text) {
                const std::string kind = "hosts:";
                const std::vector<std::string> numbers =
                    split_list(text.starts_with(kind) ? text.substr(kind.size()) : "", 'x');
                if (numbers.size() != 2)
                  reject(option, text, "expected hosts:, and how many with how many ranks", kExample);
                hosts_ = static_cast<int>(parse_integer(option, numbers[0], 2, kMostHosts, kExample));
                each_ =
                    static_cast<int>(parse_integer(option, numbers[1], 1, JobMemory::kMaxRanks / kMostHosts, kExample));
              }));
  line.option("--rate", "RATE", "Of the link of each host of --over, both ways, as tc writes it. Default: not limited.",
              into(rate_));
}

std::vector<int> RankPlaces::ranks() const {
  if (hosts_ == 0) {
    if (!rate_.empty()) reject("--rate", rate_, fmt::format("expected --over {}, too", kExample));
    return parse_ranks(ranks_.empty() ? default_ : ranks_, 1);
  }
  if (!ranks_.empty()) reject("--ranks", ranks_, "expected --ranks or --over, and not both");
  return {hosts_ * each_};
}

std::shared_ptr<const NamespaceHosts> RankPlaces::make_hosts() const {
  return hosts_ == 0 ? nullptr : std::make_shared<const NamespaceHosts>(hosts_, rate_);
}

std::string RankPlaces::words(std::span<const Peer> peers) const {
  if (hosts_ == 0) return {};
  std::string out = fmt::format("{} hosts of {} rank{}, links {}", hosts_, each_, each_ == 1 ? "" : "s",
                                rate_.empty() ? "not limited" : "of " + rate_);
  for (const Peer& peer : peers) out += fmt::format("; {}: {}", peer.name, peer.between_hosts);
  return out;
}

}  // namespace stretto::command
