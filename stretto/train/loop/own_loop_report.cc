#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "stretto/collective/protocol/policy.h"
#include "stretto/train/loop/own_loop.h"

// What a loop reports.

namespace stretto {
namespace {

using nlohmann::ordered_json;

std::string policy_name(std::uint64_t word) {
  return Policy::decode(word).to_string();
}

ordered_json json_of(const LoopHistory::Estimate& estimate) {
  if (estimate.steps == 0) return nullptr;
  return {{"sync_seconds", estimate.sync}, {"ideal_seconds", estimate.ideal}, {"steps", estimate.steps}};
}

ordered_json json_of(const LoopHistory::Holds& holds) {
  if (holds.rank < 0) return nullptr;
  return {{"rounds", holds.rounds}, {"seconds", holds.seconds}, {"rank", holds.rank}, {"longest", holds.longest}};
}

}  // namespace

std::string OwnLoop::report_json() const {
  ordered_json last_steps = ordered_json::array();
  for (int rank = 0; rank < ledger_.ranks(); ++rank) {
    ordered_json steps = ordered_json::array();
    for (const LoopHistory::Step& step : history_.last_steps(rank)) {
      steps.push_back({step.begin, step.computed, step.waited});
    }
    last_steps.push_back(std::move(steps));
  }
  ordered_json json = {{"algorithm", options_.algorithm},
                       {"rank", session_.rank()},
                       {"ranks", session_.ranks()},
                       {"max_lag", options_.max_lag},
                       {"imbalance", imbalance_.to_string()},
                       {"finished", state_ == State::finished},
                       {"replicas_identical", identical_ ? ordered_json(*identical_) : ordered_json(nullptr)},
                       {"steps", steps_},
                       {"deposits", deposits_},
                       {"estimate", json_of(history_.estimate(ledger_.applied()))},
                       {"holds", json_of(history_.holds())},
                       {"last_steps", std::move(last_steps)},
                       {"ledger", ordered_json::parse(ledger_.to_json(policy_name))}};
  if (!ledger_.hosts().empty()) json["hosts"] = ledger_.hosts();
  if (const std::string between = session_.world().transport().between_hosts(); !between.empty())
    json["between_hosts"] = between;
  return json.dump();
}

void OwnLoop::report() const {
  if (session_.rank() != 0) return;
  const double elapsed = ledger_.seconds();
  std::printf("%s on %d ranks: %llu batches applied in %.3g s, %.3g batches/s\n%s", options_.algorithm.c_str(),
              session_.ranks(), static_cast<unsigned long long>(ledger_.batches()), elapsed,
              elapsed > 0 ? static_cast<double>(ledger_.batches()) / elapsed : 0, ledger_.to_text(policy_name).c_str());
  std::fflush(stdout);
}

}  // namespace stretto
