#pragma once

#include <span>

namespace stretto {

/// A part of a simulation, in seconds.
struct Window {
  double begin;
  double end;
};

/// The part of a job that counts, in which all workers work: the last nine tenths of the first worker to be done, which
/// ended its steps at `ends`, its start before them.
Window measured_window(std::span<const double> ends);

/// Steps per second of a worker whose steps ended at `ends`, ascending, its start before them: over the steps that lie
/// wholly in the window, so that it does not matter where in a step the window begins. Infinite where they took no
/// time.
double steady_rate(std::span<const double> ends, const Window& window);

}  // namespace stretto
