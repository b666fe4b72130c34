#include "stretto/train/job/members/state_giver.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/replica/given_texts.h"

namespace stretto {
namespace {

constexpr Duration kToSend = std::chrono::minutes(5);
constexpr std::size_t kMostTexts = 15;

using Lengths = std::array<std::uint64_t, kMostTexts + 1>;  // their number, and that of the bytes of each

std::vector<int> one_that_gives_first() {
  return {1, 0};
}

}  // namespace

/// In a world of the two, of which rank 1 gives.
class StateGiver::Sending {
 public:
  Sending(std::shared_ptr<World> world, GivenState state) : world_(std::move(world)) {
    STRETTO_CHECK(state.size() <= kMostTexts, state.size(), " texts");
    Lengths lengths{state.size()};
    std::ranges::transform(state, lengths.begin() + 1, &std::string::size);
    Driver& driver = world_->driver();
    add({sizeof lengths}, one_that_gives_first())
        .give({{reinterpret_cast<const char*>(lengths.data()), sizeof lengths}});
    const auto end = lengths.begin() + 1 + static_cast<std::ptrdiff_t>(state.size());
    GivenTexts& texts = add({lengths.begin() + 1, end}, one_that_gives_first());
    texts.give(std::move(state));
    heard_ = &add({1}, {0, 1});
    heard_->expect();
    driver.notify();
  }
  /// Whether the other one has it, or is lost.
  bool is_over() const {
    const Result<bool> heard = heard_->finished();
    return !heard || *heard;
  }

 private:
  GivenTexts& add(std::vector<std::uint64_t> lengths, std::vector<int> members) {
    const auto texts = std::make_shared<GivenTexts>(world_->engine(), std::move(lengths), std::move(members));
    world_->keep(texts);
    return *texts;
  }

  const std::shared_ptr<World> world_;  // with all that is sent in it
  GivenTexts* heard_ = nullptr;         // the other one says that it has all
};

GivenState receive_state(World& world, Driver& driver, Duration within) {
  const auto expect = [&](std::vector<std::uint64_t> bytes, Duration limit) {
    const auto texts = std::make_shared<GivenTexts>(world.engine(), std::move(bytes), one_that_gives_first());
    world.keep(texts);  // the engine may use it where this is cut off
    texts->run(driver, driver.deadline(limit)).or_throw();
    GivenState state = texts->texts();
    texts->forget();
    return state;
  };
  Lengths lengths{};
  const GivenState first = expect({sizeof lengths}, within);
  std::memcpy(lengths.data(), first.front().data(), sizeof lengths);
  const std::size_t texts = std::min<std::size_t>(lengths[0], kMostTexts);
  GivenState state = expect({lengths.begin() + 1, lengths.begin() + 1 + static_cast<std::ptrdiff_t>(texts)}, kToSend);
  const auto heard = std::make_shared<GivenTexts>(world.engine(), std::vector<std::uint64_t>{1}, std::vector{0, 1});
  world.keep(heard);
  heard->give({"."});
  const auto is_said = [&] {
    const Result<bool> said = heard->finished();
    return !said || *said;
  };
  driver.wait(is_said, driver.deadline(kToSend));
  return state;
}

StateGiver::StateGiver(Changes& changes)
    : following_(changes.follow_comers([this](std::shared_ptr<World> world) { be_asked(std::move(world)); })) {}

StateGiver::~StateGiver() = default;

void StateGiver::be_asked(std::shared_ptr<World> world) {
  const std::lock_guard lock(mutex_);
  if (standing_) {
    under_way_.push_back(std::make_unique<Sending>(std::move(world), *standing_));
  } else {
    waiting_.push_back(std::move(world));
  }
}

void StateGiver::at_boundary(FunctionRef<GivenState()> state) {
  const std::lock_guard lock(mutex_);
  std::erase_if(under_way_, [](const auto& sending) { return sending->is_over(); });
  if (waiting_.empty()) return;
  const GivenState now = state();
  for (auto& world : std::exchange(waiting_, {})) {
    under_way_.push_back(std::make_unique<Sending>(std::move(world), now));
  }
}

void StateGiver::stays(GivenState state) {
  const std::lock_guard lock(mutex_);
  standing_ = std::move(state);
  for (auto& world : std::exchange(waiting_, {})) {
    under_way_.push_back(std::make_unique<Sending>(std::move(world), *standing_));
  }
}

void StateGiver::goes_on() {
  const std::lock_guard lock(mutex_);
  standing_.reset();
}

}  // namespace stretto
