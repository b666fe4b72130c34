#include "stretto/train/loop/states/registered_states.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto {

void RegisteredStates::add(std::string name, Save save, Load load) {
  if (name.empty() || name.find('\n') != std::string::npos) {
    throw UsageError(text("register_state('", name, "'): expected a name of one line"));
  }
  if (std::ranges::find(states_, name, &State::name) != states_.end()) {
    throw UsageError(text("register_state('", name, "'): that name is taken"));
  }
  if (!save || !load) throw UsageError(text("register_state('", name, "'): expected two functions"));
  states_.push_back({std::move(name), std::move(save), std::move(load)});
}

std::string RegisteredStates::describe() const {
  std::string names;
  for (const State& state : states_) names += state.name + '\n';
  return names;
}

// Each with its length in front.
std::string RegisteredStates::save() const {
  std::string saved;
  for (const State& state : states_) {
    const std::string content = state.save();
    const std::uint64_t length = content.size();
    saved.append(reinterpret_cast<const char*>(&length), sizeof length);
    saved += content;
  }
  return saved;
}

void RegisteredStates::load(std::string_view saved) const {
  for (const State& state : states_) {
    std::uint64_t length = 0;
    STRETTO_CHECK(saved.size() >= sizeof length, "a rank has sent fewer states than ", states_.size());
    std::memcpy(&length, saved.data(), sizeof length);
    saved.remove_prefix(sizeof length);
    STRETTO_CHECK(saved.size() >= length, "the state '", state.name, "' is cut off");
    state.load(std::string(saved.substr(0, length)));
    saved.remove_prefix(length);
  }
}

}  // namespace stretto
