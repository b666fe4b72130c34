#include "stretto/check/members/carried_rounds.h"

namespace stretto {

void CarriedRounds::describe(std::vector<std::int64_t>& words) const {
  const auto put = [&](auto word) { words.push_back(static_cast<std::int64_t>(word)); };
  const auto put_all = [&](const Deposits& deposits) {
    put(-1);
    for (const Deposit& one : deposits) put(one.batch), put(one.by), put(one.base);
  };
  for (const auto& [number, one] : processes_) {
    put(number), put(one.is_there + 2 * one.is_stopped + 4 * one.has_begun + 8 * one.has_model + 16 * one.leaves);
    put(one.drained), put(one.at), put(one.epoch), put(one.ticket), put(one.handed), put(one.joins), put(one.active);
    put(one.arrived), put(one.base), put(one.hand ? static_cast<std::int64_t>(*one.hand) : -1);
    put_all(one.pending);
    if (averages()) put(one.model.value()), put(one.steps), put(one.weighs + 2 * one.is_own + 4 * one.meets);
    for (const Outcome& outcome : one.results) put_all(outcome.deposits), put(outcome.all_drained);
    for (const auto& [round, deposits] : one.joined) put(round), put_all(deposits);
    for (const auto& [round, places] : one.heard) {
      for (const auto& [place, joined] : places) put(round), put(place), put(joined.drained), put_all(joined.deposits);
    }
    put(-2);
    for (const std::uint64_t batch : pool_.in_hand(number)) put(batch);
  }
  for (const auto& [epoch, mesh] : meshes_) {
    for (const std::size_t place : mesh.entered) put(place);
    for (const auto& [places, link] : mesh.links) {
      for (const Joined& joined : link) {
        put(places.first), put(places.second), put(joined.round), put(joined.drained), put_all(joined.deposits);
      }
    }
  }
  for (const std::uint64_t number : pool_.position()) put(number);
  for (const Outcome& outcome : published_) put_all(outcome.deposits);
}

}  // namespace stretto
