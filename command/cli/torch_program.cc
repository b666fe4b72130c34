#include "command/cli/torch_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "command/machine/process.h"
#include "stretto/base/error.h"

namespace stretto::command {

void become_training_program(const std::vector<std::string>& arguments) {
  const std::string program = find_companion("stretto-train");
  if (program.empty()) {
    throw Failure({Errc::unavailable,
                   fmt::format("this build cannot train: there is no stretto-train beside {}. It was built without "
                               "LibTorch (STRETTO_TORCH=OFF); `make build` sets LibTorch up and builds all",
                               program_folder() + "/stretto")});
  }
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  throw Failure({Errc::unavailable, fmt::format("{} cannot be started: {}", program, std::strerror(errno))});
}

}  // namespace stretto::command
