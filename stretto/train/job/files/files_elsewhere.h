#pragma once

#include <string>
#include <vector>

namespace stretto {

/// Files of some ranks of a run that are not in the folder of rank 0.
struct FilesElsewhere {
  std::string host;        ///< its name
  std::string folder;      ///< as the host sees it
  std::vector<int> ranks;  ///< ascending
};

}  // namespace stretto
