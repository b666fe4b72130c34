#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "stretto/base/error.h"

namespace stretto {

/// The functions of a libucp that this process has loaded.
struct UcxLibrary {
  decltype(&::ucp_get_version) get_version = nullptr;
  decltype(&::ucp_lib_query) lib_query = nullptr;
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_set_am_recv_handler) set_am_recv_handler = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_am_send_nbx) am_send_nbx = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;

  std::string version;  ///< "1.13.1"
};

/// Loads it: the one that STRETTO_UCX names, that of the machine, or that of the package `openmpi` beside this library.
/// Errc::unavailable says what there is, and what is needed.
Result<const UcxLibrary*> load_ucx();

}  // namespace stretto
