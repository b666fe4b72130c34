#include <algorithm>
#include <filesystem>
#include <string>

#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/subcommand.h"
#include "command/pages/pages.h"
#include "command/train/compare_program.h"
#include "stretto/command.h"
#include "stretto/papers/register.h"

namespace stretto {

int command_main(int argc, char** argv, std::initializer_list<RecipeInfo> own) {
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : std::string("stretto");
  const int registered = command::guarded(name, [own] {
    register_papers();
    for (const RecipeInfo& recipe : own) register_recipe(recipe);
    return command::kSuccess;
  });
  if (registered != command::kSuccess) return registered;
  command::Subcommand program = command::training_program(
      {.name = name,
       .summary = "The commands of stretto that train, with algorithms of one's own beside the library's."});
  command::add_comparisons_of_own(program);
  program.table.push_back(command::completion_command(program));
  return command::dispatch_training(program, command::Arguments(argv + std::min(argc, 1), argv + argc));
}

}  // namespace stretto
