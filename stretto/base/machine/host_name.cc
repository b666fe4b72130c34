#include "stretto/base/machine/host_name.h"

#include <unistd.h>

#include <array>

namespace stretto {

std::string host_name() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace stretto
