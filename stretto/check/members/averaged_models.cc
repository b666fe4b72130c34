#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/random.h"
#include "stretto/check/members/carried_rounds.h"
#include "stretto/membership/views/average_weights.h"

// What CarriedRounds does where models are averaged: rule 17 of docs/protocol.md.

namespace stretto {
namespace {

constexpr std::uint64_t kOwnStepStream = 0x6d6f64656c73;

}  // namespace

/// Of the round that its rank takes.
Field CarriedRounds::average(const Process& process) {
  const auto& joined = process.heard.at(process.complete());
  const View& view = mesh(process).view;
  std::vector<bool> weigh(view.members.size(), true), own(view.members.size());
  for (const auto& [place, one] : joined) own[place] = one.weighs;
  if (process.complete() == view.complete) weigh = who_weighs(view, own, false);
  const auto mean_of = [&](auto counts) {
    Field sum;
    std::uint64_t number = 0;
    for (const auto& one : joined) {
      if (!counts(one)) continue;
      sum = sum + one.second.model;
      ++number;
    }
    return number == 0 ? joined.begin()->second.model : sum / Field(number);
  };
  const auto is_own = [](const auto& one) { return one.second.is_own; };
  const Field mean = mean_of([&](const auto& one) { return weigh[one.first]; });
  if (std::ranges::any_of(joined, is_own)) {
    if (mean != mean_of(is_own)) violated("an average is not that of the models that are ranks' own");
  } else if (std::ranges::count(weigh, true) == 0 &&
             std::ranges::any_of(joined, [&](const auto& one) { return one.second.model != mean; })) {
    violated("a world begins without an average, and models differ");
  }
  return mean;
}

/// The batches of members that left before its world which are in no result that it holds, nor among `deposits`.
CarriedRounds::Deposits CarriedRounds::left_beside(const Process& process, const Deposits& deposits) const {
  Deposits left;
  for (const auto& [number, batches] : mesh(process).view.left) {
    std::uint64_t counted = static_cast<std::uint64_t>(std::ranges::count(deposits, number, &Deposit::by));
    for (const Outcome& outcome : process.results) {
      counted += static_cast<std::uint64_t>(std::ranges::count(outcome.deposits, number, &Deposit::by));
    }
    const Deposits& all = this->process(number).handed_over;
    for (; counted < batches; ++counted) left.push_back(all.at(counted));
  }
  return left;
}

/// The rank begins to apply an average, and holds it from then on.
void CarriedRounds::take_average(MemberNumber number, Process& process) {
  const Outcome& outcome = process.results.back();
  const auto own = std::ranges::count(outcome.deposits, number, &Deposit::by);
  if (own > 1) ++counts_.own_steps;
  process.weighs = process.is_own = true;
  process.steps = 0;
  process.handed = process.complete();
  process.ticket = process.handed;
  if (process.at != At::draining) return return_from_call(process);
  if (outcome.all_drained) process.at = At::finished;
}

/// What a batch adds to the model that it is computed with.
Field CarriedRounds::step_of(std::uint64_t batch) const {
  return Field(random_bits(options_.seed, kOwnStepStream, batch));
}

void CarriedRounds::check_model(MemberNumber number, const Process& process) {
  if (!process.is_own) return;
  Field model = process.results.empty() ? Field() : process.results.back().model;
  for (const Deposit& deposit : process.pending) model = model + step_of(deposit.batch);
  if (model != process.model) {
    violated(text("the model of member ", number, " before round ", process.joins,
                  " is not the last average that it holds and its steps since"));
  }
}

/// One that lacks a round, or comes, takes over what a holder has.
void CarriedRounds::take_model(MemberNumber number, Process& process, const Process& holder) {
  if (process.has_model && !process.pending.empty()) {
    violated(text("member ", number, " lacks an average, and has made a step since"));
  }
  ++(process.has_model ? counts_.taken_over : counts_.learned);
  process.model = holder.model;
  process.weighs = process.is_own = false;
  process.steps = 0;
}

}  // namespace stretto
