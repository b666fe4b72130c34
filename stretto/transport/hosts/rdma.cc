#include <algorithm>
#include <filesystem>
#include <fstream>

#include "stretto/transport/hosts/ucx.h"

namespace stretto {

std::vector<std::string> active_rdma_ports(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> active;
  std::error_code none;
  for (const auto& device : fs::directory_iterator(folder, none)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none)) {
      std::string number, state;  // "4: ACTIVE"
      std::ifstream(port.path() / "state") >> number >> state;
      if (state == "ACTIVE")
        active.push_back(text(device.path().filename().string(), ':', port.path().filename().string()));
    }
  }
  std::ranges::sort(active);
  return active;
}

}  // namespace stretto
