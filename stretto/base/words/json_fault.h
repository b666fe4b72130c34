#pragma once

#include <exception>
#include <string>

namespace stretto {

/// What an exception of the JSON library says of a text, for a person: where it is no JSON, which key is missing, which
/// value is of another type. What any other exception says, as it says it.
std::string json_fault(const std::exception& error);

}  // namespace stretto
