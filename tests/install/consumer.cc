#include <cstdio>

#include "stretto/base/random.h"

// Exit status 0 if the installed library draws alike from equal seeds.
int main() {
  stretto::Random here(7), there(7), other(8);
  const bool alike = here.bits() == there.bits() && here.bits() != other.bits();
  std::puts(alike ? "stretto::core works from its prefix" : "stretto::core draws wrongly");
  return alike ? 0 : 1;
}
