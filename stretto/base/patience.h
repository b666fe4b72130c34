#pragma once

#include <cstdint>

namespace stretto {

/// Tells the core that it spins.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// What a thread does between two looks at something that is about to happen: spins for about as long as it takes to
/// see another core's store, then gives up the core a few times, then says that it is time to sleep. A core that others
/// want, too, is not given up by yielding: the scheduler may come back after milliseconds, while a sleeper is woken at
/// once. So where a yield has taken long, none is tried for a while. And where yields run the very thread that is
/// waited for, again and again, two ranks have come to lie on one core while another idles: each moves to the core of
/// its place.
class Patience {
 public:
  /// `own_core`: there is a core for every rank, so that spinning takes nothing from anybody. `place`: this rank's
  /// among them.
  explicit Patience(bool own_core, int place = 0);

  /// Something has happened: begin again.
  void reset() {
    if (looks_ <= spins_) shared_ = 0;
    looks_ = 0;
  }
  /// Returns whether to look again; false: sleep instead.
  bool wait() {
    if (looks_ < spins_) {
      ++looks_;
      pause_core();
      return true;
    }
    return give_up_core();
  }

 private:
  bool give_up_core();
  void move_to_place();

  const std::uint32_t spins_;
  const int place_;
  std::uint32_t looks_ = 0;    // since reset()
  std::uint32_t crowded_ = 0;  // times yet to sleep without trying to yield
  int shared_ = 0;             // yields in a row that have run somebody else for a short while
};

}  // namespace stretto
