#include "command/train/run_set.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <set>

#include "command/train/watched_training.h"
#include "stretto/base/error.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

namespace {

RunSummary run_once(const RunGroup& group, int repeat, int repeats, const TrainingTask& task,
                    std::set<std::string>& told) {
  TrainOptions options = group.options;
  options.seed += static_cast<std::uint64_t>(repeat);
  if (!options.out.empty()) {
    options.out += fmt::format("/{}", run_folder_name(group, options.seed));
  }
  const std::string label = repeats == 1 ? group.label : fmt::format("{} ({} of {})", group.label, repeat + 1, repeats);
  std::optional<RunSummary> summary = run_training(options, task, watched(label, told));
  STRETTO_CHECK(summary.has_value(), "a process that started its own ranks has no summary");
  summary->algorithm = group.label;
  return std::move(*summary);
}

}  // namespace

void run_groups(std::vector<RunGroup>& groups, int repeats, const TrainingTask& task) {
  std::set<std::string> told;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t position = 0; position < groups.size(); ++position) {
      RunGroup& group = groups[rotated(position, repeat, groups.size())];
      group.runs.push_back(run_once(group, repeat, repeats, task, told));
    }
  }
}

std::size_t rotated(std::size_t position, int repeat, std::size_t groups) {
  return (position + static_cast<std::size_t>(repeat)) % groups;
}

std::string run_folder_name(const RunGroup& group, std::uint64_t seed) {
  return fmt::format("{}-seed{}", folder_name(group.label), seed);
}

std::string folder_name(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  }
  return out;
}

}  // namespace stretto::command
