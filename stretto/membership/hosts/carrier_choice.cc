#include "stretto/membership/hosts/carrier_choice.h"

#include <cctype>
#include <cstddef>

#include "stretto/base/words.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/transport/hosts/mpi.h"
#include "stretto/transport/hosts/ucx.h"

namespace stretto {
namespace {

bool is_version(const std::string& offer) {
  return !offer.empty() && std::isdigit(static_cast<unsigned char>(offer[0])) != 0;
}

std::string version_or_why(const Result<std::string>& version) {
  return version ? *version : version.error().message;
}

}  // namespace

std::string carrier_offer(const std::string& carrier, const std::string& rdma_folder) {
  if (carrier == "tcp") return "tcp is wanted";
  if (carrier == kMpi) return version_or_why(mpi_version());
  if (carrier == "auto" && active_rdma_ports(rdma_folder).empty()) return "no port for RDMA is active";
  return version_or_why(ucx_version());
}

Result<CarrierChoice> choose_carrier(const std::string& carrier, const std::vector<std::string>& offers,
                                     const std::vector<std::string>& names) {
  if (carrier == "tcp") return CarrierChoice{.why = "tcp"};
  const bool by_mpi = carrier == kMpi;
  const std::string library = by_mpi ? "MPI" : "UCX";
  const auto has = [&](std::size_t rank) {
    const bool is_there = is_version(offers[rank]);
    return text("rank ", rank, " on ", names[rank], is_there ? text(" has ", library, ' ') : ": ", offers[rank]);
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
        .engine = by_mpi ? CarrierChoice::Engine::mpi : CarrierChoice::Engine::ucx,
        .why = text(by_mpi ? "mpi " : "ucx ", offers[0],
                    carrier == "auto" ? ", since every host has an active port for RDMA" : ", as is wanted")};
  }
  if (carrier == "auto") return CarrierChoice{.why = text("tcp, since ", differs)};
  return Error{Errc::unavailable, text("no messages go by ", library, ": ", differs, "; the same ", library,
                                       " on all hosts would do, or --between tcp")};
}

}  // namespace stretto
