#include "stretto/membership/hosts/carrier_choice.h"

#include <cctype>
#include <cstddef>

#include "stretto/base/words.h"
#include "stretto/transport/hosts/ucx.h"

namespace stretto {
namespace {

bool is_version(const std::string& offer) {
  return !offer.empty() && std::isdigit(static_cast<unsigned char>(offer[0])) != 0;
}

}  // namespace

std::string ucx_offer(const std::string& carrier, const std::string& rdma_folder) {
  if (carrier == "tcp") return "tcp is wanted";
  if (carrier == "auto" && active_rdma_ports(rdma_folder).empty()) return "no port for RDMA is active";
  const auto version = ucx_version();
  return version ? *version : version.error().message;
}

Result<CarrierChoice> choose_carrier(const std::string& carrier, const std::vector<std::string>& offers,
                                     const std::vector<std::string>& names) {
  if (carrier == "tcp") return CarrierChoice{.why = "tcp"};
  const auto has = [&](std::size_t rank) {
    return text("rank ", rank, " on ", names[rank], is_version(offers[rank]) ? " has UCX " : ": ", offers[rank]);
  };
  std::string differs;
  for (std::size_t rank = 0; rank < offers.size() && differs.empty(); ++rank) {
    if (!is_version(offers[rank])) {
      differs = has(rank);
    } else if (offers[rank] != offers[0]) {
      differs = text(has(rank), ", ", has(0));
    }
  }
  if (differs.empty()) {
    return CarrierChoice{
        .ucx = true,
        .why = text("ucx ", offers[0],
                    carrier == "auto" ? ", since every host has an active port for RDMA" : ", as is wanted")};
  }
  if (carrier == "auto") return CarrierChoice{.why = text("tcp, since ", differs)};
  return Error{Errc::unavailable,
               text("no messages go by UCX: ", differs, "; the same UCX on all hosts would do, or --between tcp")};
}

}  // namespace stretto
