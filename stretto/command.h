#pragma once

#include <initializer_list>

#include "stretto/train/recipes/recipes.h"

namespace stretto {

/// main() of an executable of one's own with the commands of `stretto` that train: `train`, `compare`, `reproduce`, and
/// `completion`. They know the algorithms of `own` as they know the library's: in --help, in checks of options, in
/// tables, under --simulated. Link `stretto::command`. docs/own_algorithm.md has a whole executable.
///
/// Registers `own` (register_recipe()); one that does not fit ends the program with one line on standard error. Returns
/// the exit status, as `stretto train --help` explains it.
int command_main(int argc, char** argv, std::initializer_list<RecipeInfo> own);

}  // namespace stretto
