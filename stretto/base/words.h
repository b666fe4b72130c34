#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace stretto {

/// The arguments written one after the other, as operator<< writes them.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// Words for an exception of the JSON library over a text, for a person: where it is no JSON, which key is missing,
/// which value is of another type. The text of any other exception stays as it is.
std::string json_fault(const std::exception& error);

/// Reads a size such as "64", "4KiB", "4 MiB", "1GiB", of which the letters alone mean the same, and "4kB", "4MB",
/// "1GB" of powers of a thousand. Nothing for other text, for a part of a byte, and from 10¹⁵ bytes on.
std::optional<std::uint64_t> bytes_from_text(std::string_view written);

/// How many letters must be added, left out, replaced or swapped with their neighbour to turn `a` into `b`
/// (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

/// The one of `known` that was most probably meant, or an empty string when nothing is near.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// "did you mean eager-solo? Known: sync, eager-solo, …", the first half only if something is near.
std::string suggestion(std::string_view word, std::span<const std::string> known);

/// "rank 3", "ranks 2 and 3", "ranks 1, 2 and 3".
std::string ranks_in_words(std::span<const int> ranks);

/// "a, b, c".
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

/// Bytes as letters (RFC 4648, section 4).
std::string base64(std::span<const std::byte> bytes);

/// The bytes that base64() has written so; up to the first letter that it does not write.
std::string bytes_of_base64(std::string_view letters);

}  // namespace stretto
