#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stretto {

/// Reads a size such as "64", "4KiB", "4 MiB", "1GiB", of which the letters alone mean the same, and "4kB", "4MB",
/// "1GB" of powers of a thousand. Nothing for other text, for a part of a byte, and from 10¹⁵ bytes on.
std::optional<std::uint64_t> bytes_from_text(std::string_view written);

}  // namespace stretto
