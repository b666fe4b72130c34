#pragma once

namespace stretto {

/// The library's, "0.3.0".
const char* stretto_version();

}  // namespace stretto
