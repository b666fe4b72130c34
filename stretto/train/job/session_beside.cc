#include <memory>
#include <sstream>
#include <string>

#include "stretto/base/error.h"
#include "stretto/train/job/session.h"

// How a rank whose lines are worlds of their own comes, and leaves, beside the training of the others.

namespace stretto {
namespace {

constexpr Duration kToBeGiven = std::chrono::seconds(1);    // by one that is asked, before another one is; then longer
constexpr Duration kForItsLines = std::chrono::seconds(1);  // to take the last model of a rank that leaves
constexpr Duration kLooksAtLinesEvery = std::chrono::milliseconds(1);

}  // namespace

GivenState Session::given_state() {
  // One that has handed its model over waits for the next round of all, to which the other comes after a step then.
  const std::uint64_t steps = recipe_->steps_alone() == 0 ? kMostStepsWhereMembersChange : recipe_->steps_alone();
  return {fingerprint_lines(), account_->text(),           text(steps, ' ', meetings_),
          meeting_->weights(), replica_.optimizer_state(), account_->last_round(),
          state_to_give()};
}

bool Session::learn_beside() {
  GivenState given;
  try {
    given = receive_state(world(), *driver_, kToBeGiven * (1 + times_asked_++));
  } catch (const Failure& failure) {
    const Errc code = failure.error().code;
    if (code != Errc::timeout && code != Errc::lost_peer && !is_change(failure.error())) throw;
    world().engine().freeze();
    return false;
  }
  compare_with_giver(given[0]);
  account_->learns(given[1]);
  std::istringstream numbers(given[2]);
  std::uint64_t steps = 0;
  numbers >> steps >> meetings_;
  meeting_->set_weights(given[3]);
  replica_.set_optimizer_state(given[4]);
  account_->learned(given[5]);
  take_state(1, given[6]);
  recipe_->go_on_after_steps_alone(steps);
  alone_->world().engine().freeze();  // it has no rounds of its own
  has_state_ = weighs_ = true;
  (void)changes().begin();
  lines_ = std::make_unique<LineWorlds>(changes(), recipe_->grid());
  giver_ = std::make_unique<StateGiver>(changes());
  listener_.members_are_new();
  return true;
}

bool Session::have_lines_its_model() {
  const auto grid = recipe_->grid();
  if (grid == nullptr || lines_ == nullptr) return true;
  if (!given_by_) {
    last_model_ = grid->version();
    given_by_ = driver_->deadline(kForItsLines);
  }
  return grid->has_given(last_model_) || driver_->clock().now() >= *given_by_;
}

void Session::give_lines_model() {
  do {
    // The lines go on beside it. A change of members is seen by what follows.
    (void)unless_thrown(
        [this](TimePoint) -> Result<int> {
          const auto over = recipe_->drain(*uninterrupted_);
          return over ? Result<int>(0) : Result<int>(over.error());
        },
        TimePoint());
    uninterrupted_->wait([] { return false; }, uninterrupted_->deadline(kLooksAtLinesEvery));
  } while (!have_lines_its_model());
}

}  // namespace stretto
