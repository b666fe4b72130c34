// Executables whose algorithm of their own does not fit: misfits WHICH [ARGUMENTS].

#include <string>

#include "stretto/command.h"
#include "stretto/train/recipes/sync.h"

namespace {

using namespace stretto;

RecipeInfo own(std::string_view name) {
  return {.name = name, .description = "for a test", .data = "shared", .policy = sync_policy, .make = make_sync};
}

}  // namespace

int main(int argc, char** argv) {
  static constexpr AlgorithmOption kRanks[] = {{"ranks", "N", "own: which the command has already.", "1"}};
  const std::string which = argc > 1 ? argv[1] : "";
  RecipeInfo taken_option = own("own");
  taken_option.own_options = kRanks;
  argv[1] = argv[0];
  if (which == "of-the-library") return command_main(argc - 1, argv + 1, {own("sync")});
  if (which == "twice") return command_main(argc - 1, argv + 1, {own("own"), own("own")});
  if (which == "colon") return command_main(argc - 1, argv + 1, {own("own:1")});
  return command_main(argc - 1, argv + 1, {taken_option});
}
