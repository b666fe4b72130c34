#include "stretto/base/words/bytes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace stretto {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKiB = 1024;
constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"KiB", kKiB},
                                          {"K", kKiB},
                                          {"k", kKiB},
                                          {"MiB", kKiB* kKiB},
                                          {"M", kKiB* kKiB},
                                          {"GiB", kKiB* kKiB* kKiB},
                                          {"G", kKiB* kKiB* kKiB}}};

}  // namespace

std::optional<std::uint64_t> bytes_from_text(std::string_view written) {
  double number = 0;
  const char* end = written.data() + written.size();
  const auto [rest, error] = std::from_chars(written.data(), end, number);
  std::string_view unit_name(rest, static_cast<std::size_t>(end - rest));
  while (unit_name.starts_with(' ')) unit_name.remove_prefix(1);
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit_name; });
  if (error != std::errc() || unit == kUnits.end()) return std::nullopt;
  const double bytes = number * unit->factor;
  if (!(bytes >= 0 && bytes < 1e15 && bytes == std::floor(bytes))) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace stretto
