#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

/// States, by name, that a loop has beside its replica and that are equal on all ranks after the rounds so far: a rank
/// that comes to a job takes them over. One thread.
class RegisteredStates {
 public:
  using Save = std::function<std::string()>;
  using Load = std::function<void(const std::string&)>;

  /// Throws UsageError for a name that is empty, has a line feed, or is taken, and for an empty function.
  void add(std::string name, Save save, Load load);
  /// The names, a line each: the same on all ranks.
  std::string describe() const;
  /// The contents of all of them.
  std::string save() const;
  /// Takes over what save() has given where the same names were added. Throws what a Load throws.
  void load(std::string_view saved) const;

 private:
  struct State {
    std::string name;
    Save save;
    Load load;
  };
  std::vector<State> states_;
};

}  // namespace stretto
