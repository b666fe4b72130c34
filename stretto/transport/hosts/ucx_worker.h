#pragma once

#include <cstddef>
#include <vector>

#include "stretto/transport/hosts/ucx.h"
#include "stretto/transport/hosts/ucx_library.h"

namespace stretto {

/// A worker of UCX: where messages come, and by which they go. One thread at a time. Throws Failure.
class UcxWorker {
 public:
  UcxWorker(const UcxLibrary& ucx, const UcxOptions& options);
  ~UcxWorker();  ///< endpoints end with it
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_; }
  std::vector<std::byte> address() const;  ///< where it listens, as ucp_ep_create() of another rank wants it
  int descriptor() const;                  ///< readable when the worker, once it was armed, has something to do

 private:
  void require(const char* what, ucs_status_t status) const;

  const UcxLibrary& ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

}  // namespace stretto
