#pragma once

#include <exception>
#include <string>

namespace stretto {

/// Words for an exception of the JSON library over a text, for a person: where it is no JSON, which key is missing,
/// which value is of another type. The text of any other exception stays as it is.
std::string json_fault(const std::exception& error);

}  // namespace stretto
