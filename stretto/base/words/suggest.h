#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stretto {

/// How many letters must be added, left out, replaced or swapped with their neighbour to turn `a` into `b`
/// (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

/// The one of `known` that was most probably meant, or an empty string when nothing is near.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// "did you mean eager-solo? Known: sync, eager-solo, …", the first half only if something is near.
std::string suggestion(std::string_view word, std::span<const std::string> known);

/// "a, b, c".
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

}  // namespace stretto
