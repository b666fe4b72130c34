#pragma once

#include <string>
#include <vector>

namespace stretto {

/// Which ranks of a process set wait for which tensors that others have not submitted, for a person. Ranks are those
/// of the job.
struct StallReport {
  struct Tensor {
    std::string name;
    std::vector<int> waiting;  ///< have submitted it
    std::vector<int> lacking;  ///< have not, and some may still
  };
  struct Rank {
    int rank = 0;
    std::string does;  ///< "computes", "waits for head"
  };
  std::vector<Tensor> tensors;
  std::vector<Rank> ranks;  ///< of all members

  /// "norm.3: ranks 0, 1 wait, rank 2 has not; head: rank 2 waits, ranks 0, 1 have not"
  std::string circle() const;
  /// Who has each tensor, who has not, and what those do: "norm.3: ranks 0, 1 have it, rank 2 has not; rank 2
  /// computes".
  std::string to_text() const;
};

/// "rank 2", "ranks 0, 1".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace stretto
