#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace stretto::command {

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT, but those that are ignored, end this process with one line on
/// standard error, "NAME: interrupted", and kInterrupted. A child that was forked ends by the signal. Where ranks are
/// started, their launcher hears these signals while they run.
void end_on_signals(const std::string& name);

/// While it lives, that line says how far the run is: "NAME: interrupted after 1200 rounds". One at a time; what it is
/// given must outlive it.
class ToldWhenInterrupted {
 public:
  ToldWhenInterrupted(const std::atomic<std::uint64_t>& done, const std::string& unit);
  ~ToldWhenInterrupted();
  ToldWhenInterrupted(const ToldWhenInterrupted&) = delete;
  ToldWhenInterrupted& operator=(const ToldWhenInterrupted&) = delete;
};

}  // namespace stretto::command
