#include "stretto/train/job/files/run_files.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "stretto/base/machine/host_name.h"
#include "stretto/base/words.h"
#include "stretto/observe/trace.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kRecords = 0;  // a rank's files: its records, then its part of the trace

bool same_folder(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

/// Whether this process could make or write the folder, which is not tried: nothing may stay behind.
bool could_write(const std::string& folder) {
  std::error_code ignored;
  fs::path there = fs::absolute(folder);
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  return ::access(there.c_str(), W_OK | X_OK) == 0;
}

std::uint64_t step_in(std::string_view record) {
  const json object = json::parse(record, nullptr, false);
  const auto step = object.is_object() ? object.find("step") : object.end();
  return step != object.end() && step->is_number_unsigned() ? step->get<std::uint64_t>() : 0;
}

}  // namespace

/// Of rank 0, to all.
struct RunFiles::Words {
  std::string out;
  std::string why_not;  // it cannot be used; empty: it can
  std::string probe;
  bool local = false, goes_on = false;

  std::string encoded() const {
    return json{{"out", out}, {"why_not", why_not}, {"probe", probe}, {"local", local}, {"goes_on", goes_on}}.dump(
        -1, ' ', false, json::error_handler_t::replace);
  }
  static Words decoded(const std::string& text) {
    const json object = json::parse(text);
    return {object["out"], object["why_not"], object["probe"], object["local"], object["goes_on"]};
  }
};

RunFiles::RunFiles(RunFilesOptions options, int ranks) : options_(std::move(options)), view_(ranks) {}

void RunFiles::reserve() {
  lock_.emplace(options_.out);
  folder_ = RunFolder::make(options_.out);
}

void RunFiles::begin(const Checkpointed* from) {
  if (from != nullptr) {
    folder_->go_back_to(from->steps, from->states);
  } else {
    folder_ = RunFolder::create(options_.out);
    is_new_ = true;
  }
  if (const auto written = folder_->write_config(options_.config); !written) options_.tell(written.error().message);
}

void RunFiles::undo() {
  std::error_code is_used;
  if (folder_ && is_new_) folder_->remove_run();
  if (folder_ && !is_new_) fs::remove(folder_->path(), is_used);
  folder_.reset();
  lock_.reset();
}

void RunFiles::prepare(const Checkpointed* from) {
  if (options_.out.empty()) return;
  reserve();
  begin(from != nullptr && same_folder(options_.out, options_.resume) ? from : nullptr);
}

void RunFiles::come_back() {
  if (!options_.out.empty()) reserve();
}

void RunFiles::come() {
  if (options_.out.empty()) return;
  const auto there = RunFolder::open(options_.out);
  if (there && there->read("config.json")) return;
  (void)RunFolder::make(options_.out);
  options_.tell(text("records of what is started here stay on ", host_name(), " in '", options_.out, '\''));
}

void RunFiles::share(Meeting& meeting, Driver& driver, World& world, const Checkpointed* from) {
  const Members& members = world.transport().members();
  const int rank = world.rank();
  FolderProbe probe;
  const Words words = Words::decoded(meeting.broadcast_text(driver, [&] {
    Words mine{.out = options_.out, .why_not = {}, .probe = {}, .local = options_.local};
    if (mine.out.empty()) return mine.encoded();
    try {
      reserve();
      probe = FolderProbe(mine.out);
      mine.probe = probe.words();
      mine.goes_on = from != nullptr && same_folder(mine.out, options_.resume);
    } catch (const UsageError& error) {
      mine.why_not = error.what();
    }
    return mine.encoded();
  }));
  options_.out = words.out;
  options_.local = words.local;
  if (words.out.empty()) return;
  if (!words.why_not.empty()) refuse(meeting, driver, members, words.why_not);

  if (rank != 0) probe = FolderProbe::in(words.out, words.probe);
  view_ = look_together(meeting, driver, members, probe);
  probe = {};
  const auto all_do = [&](bool this_rank, auto&& work) {
    std::string fault;
    try {
      if (this_rank) work();
    } catch (const UsageError& error) {
      fault = error.what();
    }
    try {
      require_no_fault(meeting, driver, members, fault);
    } catch (const UsageError&) {
      undo();
      throw;
    }
  };
  if (!view_.seen_by_all()) {
    hosts_ = meeting.gather_texts(driver, host_name());
    all_do(view_.is_keeper(rank), [this] { reserve(); });
  }
  all_do(folder_.has_value(), [&] {
    // A keeper's part of the run is not there any more once it has been brought to rank 0.
    const bool is_there = words.goes_on && (rank == 0 || folder_->read("config.json").ok());
    begin(is_there ? from : nullptr);
  });
}

void RunFiles::refuse(Meeting& meeting, Driver& driver, const Members& members, const std::string& why) const {
  if (members.hosts() == 1) throw UsageError(why);
  const auto could = meeting.gather(driver, {could_write(options_.out) ? 1u : 0u});
  const auto names = meeting.gather_texts(driver, host_name());
  std::map<int, std::vector<int>> able;  // ranks, by host
  for (int rank = 1; rank < members.size(); ++rank) {
    const int host = members.host_of(rank);
    if (host != members.host_of(0) && could[static_cast<std::size_t>(rank)][0] != 0) able[host].push_back(rank);
  }
  std::string others;
  for (const auto& [host, ranks] : able) {
    others +=
        text(others.empty() ? "" : ", ", ranks_in_words(ranks), " on ", names[static_cast<std::size_t>(ranks[0])]);
  }
  throw UsageError(text("rank 0, on ", names[0], ": ", why,
                        others.empty() ? "" : text("; ", others, " could, but rank 0 writes the folder of all")));
}

GatheredLines RunFiles::bring_together(Meeting& meeting, Driver& driver, World& world) {
  if (view_.seen_by_all()) return {};
  if (options_.local) {
    leave_elsewhere(meeting, driver, world.rank());
    return {};
  }
  return gather(meeting, driver, world);
}

GatheredLines RunFiles::gather(Meeting& meeting, Driver& driver, World& world) {
  const RunFolder folder = RunFolder::open(options_.out).or_throw();
  const LineGathering gathering{.files_of =
                                    [&](int rank) {
                                      return std::vector{folder.records_file(rank), folder.trace_file(rank)};
                                    },
                                .place =
                                    [&](int rank, std::size_t file, std::string_view first_line) {
                                      if (file != kRecords)
                                        return LineGathering::Place{.path = folder.trace_file(rank)};
                                      // A job that was killed while it brought them may have left some.
                                      folder.cut_records(rank, step_in(first_line));
                                      return LineGathering::Place{.path = folder.records_file(rank),
                                                                  .mode = LineFile::Mode::append};
                                    }};
  GatheredLines gathered = gather_lines(world.engine(), meeting, driver, view_, gathering);
  if (!view_.is_keeper(world.rank())) return gathered;
  if (gathered.mine_are_there) {
    folder_->remove_run();
  } else {
    options_.tell(text("files of ", ranks_in_words(view_.kept_by(world.rank())), " stay on ", host_name(), " in '",
                       options_.out, "': rank 0 could not write all of them"));
  }
  lock_.reset();
  return gathered;
}

void RunFiles::leave_elsewhere(Meeting& meeting, Driver& driver, int rank) {
  const auto folders = meeting.gather_texts(driver, fs::absolute(options_.out).string());  // all have flushed them
  if (view_.is_keeper(rank)) {
    merge_traces_of(view_.kept_by(rank));
    lock_.reset();
  }
  if (rank != 0) return;
  for (const int keeper : view_.keepers()) {
    const auto at = static_cast<std::size_t>(keeper);
    elsewhere_.push_back({.host = hosts_[at], .folder = folders[at], .ranks = view_.kept_by(keeper)});
    options_.tell(
        text("files of ", ranks_in_words(elsewhere_.back().ranks), " are on ", hosts_[at], " in '", folders[at], '\''));
  }
}

void RunFiles::merge_traces() const {
  std::vector<int> here;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    if (!options_.local || view_.seen_by(rank)) here.push_back(rank);
  }
  merge_traces_of(here);
}

void RunFiles::merge_traces_of(const std::vector<int>& ranks) const {
  if (!folder_) return;
  std::vector<std::string> parts;
  for (const int rank : ranks) parts.push_back(folder_->trace_file(rank));
  const auto merged = stretto::merge_traces(parts, folder_->file("trace.json"));
  if (!merged) options_.tell(merged.error().message);
}

void RunFiles::finish(const std::string& summary) const {
  if (!folder_) return;
  if (const auto written = folder_->write_summary(summary); !written) options_.tell(written.error().message);
}

}  // namespace stretto
