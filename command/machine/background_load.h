#pragma once

#include "stretto/base/clock.h"

namespace stretto::command {

/// The share of this machine's processor time, 0 … 1, that other programs (and its host) take while this process
/// sleeps for `window`. NaN where /proc/stat does not say.
double background_load(Duration window);

}  // namespace stretto::command
