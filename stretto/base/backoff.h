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

/// A thread's pause between two looks at something that is about to happen. It spins for about as long as it takes to
/// see another core's store, then yields the core a few times, then says that it is time to sleep.
/// Where a yield has taken long, another thread computes on this core: the scheduler may come back after milliseconds,
/// while a sleeper is woken at once. So no yield is tried for a while. Where yields run the very thread that is waited
/// for, again and again, two ranks lie on one core while another core idles: each moves to the core of its place.
class Backoff {
 public:
  /// `own_core`: there is a core for every rank, so that spinning keeps no other rank from running. `place`: this
  /// rank's number among the cores it is allowed.
  explicit Backoff(bool own_core, int place = 0);

  /// The wait has ended: the next one begins with spinning.
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
  int shared_ = 0;             // yields in a row that have run another thread for a short while
};

}  // namespace stretto
