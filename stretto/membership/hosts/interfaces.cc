#include "stretto/membership/hosts/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "stretto/base/words.h"

namespace stretto {
namespace {

/// Whether NCCL would take the interface `name`.
bool is_wanted(std::string_view wanted, std::string_view name) {
  const bool all_but = wanted.starts_with('^');
  if (all_but) wanted.remove_prefix(1);
  const bool exactly = wanted.starts_with('=');
  if (exactly) wanted.remove_prefix(1);
  bool named = false;
  while (!wanted.empty()) {
    const std::string_view one = wanted.substr(0, wanted.find(','));
    wanted.remove_prefix(std::min(wanted.size(), one.size() + 1));
    named |= !one.empty() && (exactly ? name == one : name.starts_with(one));
  }
  return named != all_but;
}

std::optional<asio::ip::address> address_of(const sockaddr* from) {
  if (from == nullptr) return std::nullopt;
  if (from->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, from, sizeof in);
    return asio::ip::address_v4(ntohl(in.sin_addr.s_addr));
  }
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, from, sizeof in);
    asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), in.sin6_addr.s6_addr, bytes.size());
    const asio::ip::address_v6 address(bytes);
    if (!address.is_link_local()) return address;
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<asio::ip::address>> addresses_of_interfaces(const std::string& wanted) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return Error{Errc::io, text("the interfaces of this host: ", std::system_category().message(errno))};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  std::vector<asio::ip::address> addresses;
  std::string names;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    const auto address = address_of(one->ifa_addr);
    if (!address || (one->ifa_flags & IFF_UP) == 0) continue;
    names += text(names.empty() ? "" : ", ", one->ifa_name, " (", address->to_string(), ')');
    if (wanted.empty() ? !address->is_loopback() : is_wanted(wanted, one->ifa_name)) addresses.push_back(*address);
  }
  if (!addresses.empty()) return addresses;
  return Error{Errc::unavailable, text(wanted.empty() ? "no interface but loopback has an address"
                                                      : text("no interface that \"", wanted, "\" names has an address"),
                                       "; there are: ", names.empty() ? "none" : names)};
}

std::string wanted_interfaces() {
  for (const char* variable : {"STRETTO_INTERFACE", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    if (const char* wanted = std::getenv(variable); wanted != nullptr && *wanted != '\0') return wanted;
  }
  return {};
}

asio::ip::address first_reachable_address(const asio::ip::address& kind) {
  const auto reachable = addresses_of_interfaces(wanted_interfaces());
  if (!reachable && !wanted_interfaces().empty()) throw Failure(reachable.error());
  if (!reachable) return asio::ip::address_v4::loopback();
  const auto of_kind = std::ranges::find(*reachable, kind.is_v6(), &asio::ip::address::is_v6);
  return of_kind != reachable->end() ? *of_kind : reachable->front();
}

PortRange wanted_ports() {
  const char* const wanted = std::getenv("STRETTO_PORTS");
  if (wanted == nullptr || *wanted == '\0') return {};
  const std::string_view words = wanted;
  PortRange range;
  const auto [dash, wrong] = std::from_chars(words.begin(), words.end(), range.first);
  const auto [end, wrong_too] = std::from_chars(std::min(dash + 1, words.end()), words.end(), range.last);
  const bool fits = wrong == std::errc() && wrong_too == std::errc() && *dash == '-' && end == words.end();
  if (!fits || range.first == 0 || range.last < range.first) {
    throw UsageError(text("STRETTO_PORTS='", words, "': expected a range from 1 to 65535, as in 20000-20100"));
  }
  return range;
}

}  // namespace stretto
