#include "stretto/base/version.h"

namespace stretto {

const char* stretto_version() {
  return STRETTO_VERSION;
}

}  // namespace stretto
