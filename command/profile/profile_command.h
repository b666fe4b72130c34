#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "command/cli/subcommand.h"
#include "stretto/train/profile/training_profile.h"

namespace stretto::command {

/// The options of `stretto profile`.
struct ProfileCommand {
  std::string workload;  ///< empty: `measured`
  std::string measured;  ///< file or folder of a job that has been measured
  int batch = 0;         ///< 0: the workload's
  std::uint64_t seed = 1;
  ProfileOptions options;
  double bandwidth = 1.25e9;  ///< of the job that is written
  std::string out;            ///< empty: standard output
  bool overhead = false;      ///< measure what profiling costs
};

/// `stretto profile`. `run` gets its options, checked as far as possible without Torch; it returns an exit code.
Subcommand profile_command(std::function<int(const ProfileCommand&)> run);

/// Of stretto-train: profiles, and prints or writes the job. Returns an exit code.
int run_profile(const ProfileCommand& command);

}  // namespace stretto::command
