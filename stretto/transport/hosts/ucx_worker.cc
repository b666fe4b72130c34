#include "stretto/transport/hosts/ucx_worker.h"

#include <ifaddrs.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace stretto {
namespace {

/// The interface that has this address; empty: none has.
std::string interface_of(const asio::ip::address& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (address.is_v4() && one->ifa_addr->sa_family == AF_INET) {
      const auto bytes = address.to_v4().to_bytes();
      const auto& of_it = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
      if (std::memcmp(bytes.data(), &of_it, bytes.size()) == 0) found = one->ifa_name;
    }
    if (address.is_v6() && one->ifa_addr->sa_family == AF_INET6) {
      const auto bytes = address.to_v6().to_bytes();
      const auto& of_it = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      if (std::memcmp(bytes.data(), &of_it, bytes.size()) == 0) found = one->ifa_name;
    }
  }
  ::freeifaddrs(all);
  return found;
}

/// UCX's options by their names; what UCX's own variables say counts before them.
std::vector<std::pair<std::string, std::string>> ucx_settings(const UcxOptions& options) {
  const std::vector<std::string> rdma = active_rdma_ports();
  std::string devices = interface_of(options.at);
  for (const std::string& port : rdma) devices += (devices.empty() ? "" : ",") + port;
  std::vector<std::pair<std::string, std::string>> settings{
      {"LOG_LEVEL", "fatal"},                          // it would write to stdout
      {"TLS", rdma.empty() ? "tcp" : "rc,ud,dc,tcp"},  // ranks of one host have other ways
      {"NET_DEVICES", devices},
      {"RNDV_THRESH", "inf"},
      {"KEEPALIVE_INTERVAL", "inf"},
      {"TCP_RX_SEG_SIZE", "256k"},
      {"TCP_AF_PRIO", options.at.is_v6() ? "inet6,inet" : "inet,inet6"},
  };
  if (!options.ports.empty()) settings.emplace_back("TCP_PORT_RANGE", options.ports);
  return settings;
}

/// Those of a transport UCX 1.13 knows here by their names without it alone, and passes over the others.
void set_option(const UcxLibrary& ucx, ucp_config_t* config, const std::string& name, const std::string& value) {
  constexpr std::string_view kTcp = "TCP_";
  if (std::getenv(("UCX_" + name).c_str()) != nullptr) return;
  ucx.config_modify(config, name.c_str(), value.c_str());
  if (name.starts_with(kTcp)) ucx.config_modify(config, name.c_str() + kTcp.size(), value.c_str());
}

}  // namespace

UcxWorker::UcxWorker(const UcxLibrary& ucx, const UcxOptions& options) : ucx_(ucx) {
  ucp_config_t* config = nullptr;
  require("read its options", ucx_.config_read(nullptr, nullptr, &config));
  for (const auto& [name, value] : ucx_settings(options)) set_option(ucx_, config, name, value);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = 1;  // TCP counts as fit for 256 at most
  const ucs_status_t begun = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx_.config_release(config);
  require("begin", begun);
  ucp_worker_params_t how{};
  how.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  how.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  const ucs_status_t made = ucx_.worker_create(context_, &how, &worker_);
  if (made != UCS_OK) ucx_.cleanup(context_);
  require("make a worker", made);
}

UcxWorker::~UcxWorker() {
  ucx_.worker_destroy(worker_);
  ucx_.cleanup(context_);
}

std::vector<std::byte> UcxWorker::address() const {
  ucp_address_t* at = nullptr;
  std::size_t bytes = 0;
  require("say where it listens", ucx_.worker_get_address(worker_, &at, &bytes));
  const auto* const first = reinterpret_cast<const std::byte*>(at);
  std::vector<std::byte> out(first, first + bytes);
  ucx_.worker_release_address(worker_, at);
  return out;
}

int UcxWorker::descriptor() const {
  int descriptor = -1;
  require("be slept on", ucx_.worker_get_efd(worker_, &descriptor));
  return descriptor;
}

void UcxWorker::require(const char* what, ucs_status_t status) const {
  if (status == UCS_OK) return;
  throw Failure({Errc::unavailable,
                 text("UCX cannot ", what, ": ", ucx_.status_string(status), "; --between tcp does without it")});
}

}  // namespace stretto
