#pragma once

#include <string>

namespace stretto {

/// The name of this host, as it calls itself.
std::string host_name();

}  // namespace stretto
