#pragma once

#include <span>

namespace stretto {

/// A part of a simulation, in seconds.
struct Window {
  double begin;
  double end;
};

/// What is measured of a job whose first worker to be done has ended its steps at `ends`, its start before them: its
/// last nine tenths, in which all worked.
Window measured_window(std::span<const double> ends);

/// Steps per second of a worker whose steps ended at `ends`, ascending, its start before them: over the steps that lie
/// wholly in the window, so that it does not matter where in a step the window begins. Infinite where they took no
/// time.
double steady_rate(std::span<const double> ends, const Window& window);

}  // namespace stretto
