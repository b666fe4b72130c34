#include "stretto/transport/hosts/ucx.h"

// In the place of ucx.cc where the headers of UCX are not there.

namespace stretto {

Result<std::string> ucx_version() {
  return Error{Errc::unavailable, "this Stretto was built without the headers of UCX (Debian: libucx-dev)"};
}

std::unique_ptr<Carrier> start_ucx(NetworkThread&, TcpCarrier&, const UcxOptions&, const Doorbell&) {
  throw Failure(ucx_version().error());
}

}  // namespace stretto
