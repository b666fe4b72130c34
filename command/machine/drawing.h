#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::command {

/// Runs a script that belongs to this program and draws with matplotlib. Returns why it could not; empty where it
/// could.
std::string draw(const std::string& script, const std::vector<std::string>& arguments);

/// For a picture that was asked for, before there is anything to draw. Throws UsageError, which begins with `asked`,
/// where matplotlib is missing.
void require_matplotlib(std::string_view asked);

}  // namespace stretto::command
