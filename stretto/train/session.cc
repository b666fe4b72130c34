#include "stretto/train/session.h"

#include <algorithm>

#include "stretto/base/cores.h"
#include "stretto/base/error.h"
#include "stretto/train/flat_math.h"

namespace stretto {
namespace {

DriverOptions driver_options(ProgressBy progress_by, int ranks) {
  DriverOptions options{.progress_by = progress_by};
  if (ranks >= num_cores()) options.share_cores();
  return options;
}

std::uint64_t hash_of(const std::string& text) {
  Hash64 hash;
  hash.add(text);
  return hash.value();
}

}  // namespace

Session::Session(Transport& transport, const Clock& clock, Replica& replica, RoundListener& listener,
                 SessionOptions options)
    : options_(std::move(options)),
      engine_(transport, clock),
      meeting_(engine_, replica),
      recipe_(options_.recipe->make({replica, engine_, meeting_, listener, options_.recipe_options})),
      driver_(engine_, driver_options(options_.progress_by, engine_.size())) {}

void Session::begin(std::span<const Fingerprint> fingerprints) {
  STRETTO_CHECK(fingerprints.size() <= Meeting::kNumbers, fingerprints.size(), " fingerprints");
  Meeting::Numbers mine{};
  for (std::size_t i = 0; i < fingerprints.size(); ++i) mine[i] = hash_of(fingerprints[i].text);
  const auto all = meeting_.gather(driver_, mine);
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank][i] == all[0][i]) continue;
      std::string here = fingerprints[i].text;
      std::replace(here.begin(), here.end(), '\n', ' ');
      throw UsageError(text("rank ", rank, " has another ", fingerprints[i].what, " than rank 0; on rank ",
                            engine_.rank(), " it is: ", here));
    }
  }
  meeting_.broadcast_weights(driver_);
}

void Session::end_backward(const std::string& where) {
  const auto non_finite = recipe_->end_backward();
  if (!non_finite) return;
  const std::string reason = text("the gradient of ", *non_finite, " is not finite on rank ", engine_.rank(), ", ",
                                  where, "; a smaller learning rate may help");
  abort(reason);
  throw Failure({Errc::aborted, reason, engine_.rank()});
}

int Session::exchange() {
  return insist([this](TimePoint deadline) { return recipe_->exchange(driver_, deadline); });
}

int Session::finish() {
  return insist([this](TimePoint deadline) { return recipe_->finish(driver_, deadline); });
}

bool Session::finish_within(Duration limit) {
  const Result<int> rounds = recipe_->finish(driver_, driver_.deadline(limit));
  if (!rounds && rounds.error().code != Errc::timeout) throw Failure(rounds.error());
  return rounds.ok();
}

void Session::abort(const std::string& reason) {
  recipe_->collective().abort(driver_, reason);
}

int Session::insist(FunctionRef<Result<int>(TimePoint)> call) {
  for (;;) {
    const Result<int> rounds = call(driver_.deadline(options_.silence));
    if (rounds) return *rounds;
    if (rounds.error().code != Errc::timeout) throw Failure(rounds.error());
    if (options_.tell) options_.tell(recipe_->collective().handed(), rounds.error().message);
  }
}

}  // namespace stretto
