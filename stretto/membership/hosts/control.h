#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/shared_counter.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

class Line;

/// Words between rank 0 and the ranks of all hosts for as long as a job lasts: the job's counters, reports, and who has
/// left. The threads of the network answer: neither an engine nor an application is asked.
///
/// This is one rank's side. Application thread, but where a part says otherwise.
class Control {
 public:
  /// `line`: to rank 0, which has met this rank.
  Control(NetworkThread& network, std::shared_ptr<Line> line);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Adds to a counter of the job, and returns what it was. Throws Failure (Errc::lost_peer) without rank 0, and what
  /// end() was given.
  std::uint64_t fetch_add(int counter, std::uint64_t amount);
  /// Hands rank 0 what this rank reports.
  void report(const std::string& text);
  /// Nobody waits for rank 0 any more. Any thread.
  void end(const Error& why);
  /// Says goodbye; returns when rank 0 has heard it, or after two seconds.
  void leave();

 private:
  class Impl;
  NetworkThread& network_;
  std::shared_ptr<Impl> impl_;
};

/// A counter of the job, on rank 0's host: a round trip.
class ControlCounter final : public SharedCounter {
 public:
  ControlCounter(Control& control, int index) : control_(control), index_(index) {}
  std::uint64_t fetch_add(std::uint64_t amount) override { return control_.fetch_add(index_, amount); }

 private:
  Control& control_;
  const int index_;
};

}  // namespace stretto
