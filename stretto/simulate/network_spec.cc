#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/simulate/cluster.h"

namespace stretto {
namespace {

constexpr std::pair<std::string_view, double> kUnits[] = {  // longer ones first: "B/s" ends several
    {"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}};
constexpr double kMostBandwidth = 1e18;
constexpr double kMostUneven = 10;

std::optional<double> parse_bandwidth(std::string_view written) {
  for (const auto& [unit, bytes] : kUnits) {
    if (!written.ends_with(unit)) continue;
    written.remove_suffix(unit.size());
    double number = 0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), number);
    const bool whole = error == std::errc() && end == written.data() + written.size();
    if (!whole || !(number * bytes >= kLeastBandwidth && number * bytes <= kMostBandwidth)) return std::nullopt;
    return number * bytes;
  }
  return std::nullopt;
}

std::optional<double> parse_unevenness(std::string_view written) {
  double number = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), number);
  if (error != std::errc() || end != written.data() + written.size()) return std::nullopt;
  if (!(number >= 0 && number <= kMostUneven)) return std::nullopt;
  return number;
}

[[noreturn]] void reject(std::string_view written, std::string_view part) {
  throw UsageError(text(
      "network ", written, ": '", part,
      "': expected latency=TIME, bandwidth=RATE from 10kB/s to 1e9GB/s, overhead=TIME, jitter=TIME, sharing=fifo or "
      "fair, and of fair ones unevenness=NUMBER from 0 to 10, as in latency=1us,bandwidth=10GB/s"));
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
    if (name == "sharing") {
      if (value != "fifo" && value != "fair") reject(written, part);
      network.fair_shares = value == "fair";
      continue;
    }
    if (name == "unevenness") {
      const auto number = parse_unevenness(value);
      if (!number) reject(written, part);
      network.unevenness = *number;
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
  if (network.unevenness > 0 && !network.fair_shares) reject(written, "unevenness without sharing=fair");
  return network;
}

std::string to_text(const NetworkOptions& network) {
  const auto number = [](double value) {
    char digits[32];
    const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
    STRETTO_CHECK(error == std::errc(), value);
    return std::string(digits, end);
  };
  std::string words = text("latency=", to_text(network.latency), ",bandwidth=", number(network.bytes_per_second / 1e9),
                           "GB/s,overhead=", to_text(network.overhead), ",jitter=", to_text(network.jitter));
  if (network.fair_shares) words += text(",sharing=fair,unevenness=", number(network.unevenness));
  return words;
}

}  // namespace stretto
