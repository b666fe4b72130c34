#pragma once

#include <cstdint>

namespace stretto {

/// What a thread does between two looks at something that is about to happen: spins for about as long as it takes to
/// see another core's store, then gives up the core a few times, then says that it is time to sleep. A core that others
/// want, too, is not given up by yielding: the scheduler may come back after milliseconds, while a sleeper is woken at
/// once. So where a yield has taken long, none is tried for a while.
class Patience {
 public:
  /// `own_core`: no other rank needs this core, so that spinning takes nothing from anybody.
  explicit Patience(bool own_core);

  /// Something has happened: begin again.
  void reset() { looks_ = 0; }
  /// Returns whether to look again; false: sleep instead.
  bool wait() {
    if (looks_ < spins_) {
      ++looks_;
      pause();
      return true;
    }
    return give_up_core();
  }

 private:
  static void pause();
  bool give_up_core();

  const std::uint32_t spins_;
  std::uint32_t looks_ = 0;    // since reset()
  std::uint32_t crowded_ = 0;  // times yet to sleep without trying to yield
};

inline void Patience::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace stretto
