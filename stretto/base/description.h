#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

// The description of a collective, as text that ranks compare. The first line is in words for people; each further line
// is one item that must be the same on every rank, such as "bucket 3: 10 float32". The text may be of any length. Where
// there is too little room for all of it, it is cut at the end, and the hash of the whole text still tells two of them
// apart.

/// The hash of the whole text: the same on every machine.
std::uint64_t hash_of(std::string_view description);

/// The first line, cut where it is too long for a message.
std::string words_of(std::string_view description);

/// The text which says that rank `rank` has made another collective than `other`: names both, and the first item in
/// which they differ, where the texts as far as they are here show one.
std::string disagreement_between(int rank, std::string_view mine, int other, std::string_view theirs);

}  // namespace stretto
