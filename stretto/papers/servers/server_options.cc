#include "stretto/papers/servers/server_options.h"

#include "stretto/base/error.h"

namespace stretto {

std::string ServerOptions::to_string() const {
  std::string words;
  switch (mode) {
    case ServerMode::sync: words = "sync"; break;
    case ServerMode::async: words = "async"; break;
    case ServerMode::ssp: words = text("ssp of ", staleness, " steps"); break;
    case ServerMode::k_sync: words = text("k-sync of ", enough, enough == 1 ? " gradient" : " gradients"); break;
  }
  if (servers == 0) return words + ", every rank a server";
  return words + text(", ", servers, dedicated ? " dedicated" : "", servers == 1 ? " server" : " servers");
}

void check_server_options(const ServerOptions& options, int ranks) {
  if (options.servers < 0 || options.servers > ranks) {
    throw UsageError(text("parameter server: ", options.servers, " servers among ", ranks,
                          ranks == 1 ? " rank" : " ranks", "; expected 1 to ", ranks));
  }
  if (options.dedicated && options.num_workers(ranks) == 0) {
    throw UsageError(text("parameter server: all ", ranks,
                          " ranks are dedicated servers, and none is left to compute gradients; expected at most ",
                          ranks - 1, " servers"));
  }
  const int workers = options.num_workers(ranks);
  if (options.mode == ServerMode::k_sync && (options.enough < 1 || options.enough > workers)) {
    throw UsageError(text("k-sync: a version of ", options.enough, " gradients, where ", workers,
                          workers == 1 ? " rank computes" : " ranks compute", " them; expected K from 1 to ", workers));
  }
}

}  // namespace stretto
