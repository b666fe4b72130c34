#include "stretto/simulate/network_spec.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/imbalance/duration.h"

namespace stretto {
namespace {

constexpr std::pair<std::string_view, double> kUnits[] = {  // longer ones first: "B/s" ends several
    {"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}};
// What a message of a gigabyte takes at the least of them is still far below the longest duration.
constexpr double kLeast = 1e4;

std::optional<double> parse_bandwidth(std::string_view written) {
  for (const auto& [unit, bytes] : kUnits) {
    if (!written.ends_with(unit)) continue;
    written.remove_suffix(unit.size());
    double number = 0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), number);
    const bool whole = error == std::errc() && end == written.data() + written.size();
    if (!whole || !std::isfinite(number) || number * bytes < kLeast) return std::nullopt;
    return number * bytes;
  }
  return std::nullopt;
}

[[noreturn]] void reject(std::string_view written, std::string_view part) {
  throw UsageError(
      text("network ", written, ": '", part,
           "': expected latency=TIME, bandwidth=RATE of at least 10kB/s, overhead=TIME and jitter=TIME, as "
           "in latency=1us,bandwidth=10GB/s"));
}

}  // namespace

NetworkOptions parse_network(const std::string& written) {
  NetworkOptions network{.shared_card = true};
  std::string_view left = written;
  while (!left.empty()) {
    const std::string_view part = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), part.size() + 1));
    if (left.empty() && written.ends_with(',')) reject(written, ",");
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) reject(written, part);
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "bandwidth") {
      const auto rate = parse_bandwidth(value);
      if (!rate) reject(written, part);
      network.bytes_per_second = *rate;
      continue;
    }
    const auto time = parse_duration(value);
    if (!time) reject(written, part);
    if (name == "latency") {
      network.latency = *time;
    } else if (name == "overhead") {
      network.overhead = *time;
    } else if (name == "jitter") {
      network.jitter = *time;
    } else {
      reject(written, part);
    }
  }
  return network;
}

std::string to_text(const NetworkOptions& network) {
  char rate[32];
  const auto [end, error] = std::to_chars(rate, rate + sizeof(rate), network.bytes_per_second / 1e9);
  STRETTO_CHECK(error == std::errc(), "bandwidth ", network.bytes_per_second);
  return text("latency=", to_text(network.latency), ",bandwidth=", std::string(rate, end),
              "GB/s,overhead=", to_text(network.overhead), ",jitter=", to_text(network.jitter));
}

}  // namespace stretto
