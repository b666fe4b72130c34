#pragma once

#include "command/profile/profile_command.h"

namespace stretto::command {

/// Of stretto-train: profiles, and prints or writes the job. Returns an exit code.
int run_profile(const ProfileCommand& command);

}  // namespace stretto::command
