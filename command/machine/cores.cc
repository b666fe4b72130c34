#include "command/machine/cores.h"

#include "stretto/base/cores.h"

namespace stretto::command {

void pin_to(int core) {
  pin_thread(std::span(&core, 1));
}

}  // namespace stretto::command
