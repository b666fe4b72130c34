#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto {

/// Takes times one by one, in any order, and keeps as many steps as fit into its memory: of more every second stretch
/// of ten steps that follow one another, and again of these.
class CollectedTimes {
 public:
  /// `source` is what messages name: a file, a folder.
  explicit CollectedTimes(std::string source) : source_(std::move(source)) {}

  /// Takes the time of a step on a rank. Returns what is wrong with it; empty where nothing is. Requires: rank and
  /// seconds are not negative.
  std::string take(std::uint64_t step, int rank, double seconds);

  /// Errc::bad_input where a rank has no time of some step; a last step that some ranks have not come to does not
  /// count.
  Result<StepTimes> result();

 private:
  Error wrong(const std::string& what) const;
  bool is_whole(const std::vector<float>& row) const;
  bool stays(std::uint64_t step) const;
  void thin_out();

  const std::string source_;
  int ranks_ = 0;
  std::uint64_t stride_ = 1;  // of stretches
  std::size_t kept_ = 0;
  std::map<std::uint64_t, std::vector<float>> rows_;  // by step
};

}  // namespace stretto
