#include "stretto/train/job/files/line_gatherer.h"

#include <gtest/gtest.h>

#include <map>

#include "stretto/base/words.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using GatheredFiles = std::map<std::pair<int, std::size_t>, std::string>;  // content, by rank and number

std::string numbered_lines(int rank, int lines) {
  std::string content;
  for (int line = 0; line < lines; ++line) content += text("line ", line, " of rank ", rank, '\n');
  return content;
}

/// Gathers `files` of the ranks that `view` says to `to`, two of each rank; those not named are not there.
std::vector<GatheredLines> gather_files(const FolderView& view, const GatheredFiles& files, const std::string& to,
                                        const std::string& prefix = "") {
  const TemporaryFolder from;
  const auto name = [](int rank, std::size_t file) { return text("file-", file, '-', rank); };
  for (const auto& [place, content] : files) from.write(name(place.first, place.second), content);
  std::vector<GatheredLines> found(static_cast<std::size_t>(view.ranks()));
  const auto task = linear_task();
  run_thread_job(view.ranks(), [&](Engine& engine) {
    const auto rank_task = task->start_rank({});
    Meeting meeting(engine, rank_task->replica());
    EngineDriver driver(engine);
    const LineGathering gathering{
        .files_of =
            [&](int rank) {
              EXPECT_EQ(view.keeper_of(rank), engine.rank());
              return std::vector{from.path() + '/' + name(rank, 0), from.path() + '/' + name(rank, 1)};
            },
        .place =
            [&](int rank, std::size_t file, std::string_view first_line) {
              EXPECT_EQ(engine.rank(), 0);
              const std::string& content = files.at({rank, file});
              EXPECT_EQ(first_line, content.substr(0, content.find('\n')));
              return LineGathering::Place{.path = to + '/' + prefix + name(rank, file), .mode = LineFile::Mode::append};
            }};
    found[static_cast<std::size_t>(engine.rank())] = gather_lines(engine, meeting, driver, view, gathering);
    return true;
  });
  return found;
}

TEST(LineGathererTest, BringsEveryLineOfEveryFile) {
  const FolderView view(Members({0, 1, 1, 2, 2}), {true, false, false, false, false});
  const TemporaryFolder to;
  GatheredFiles files{{{1, 0}, numbered_lines(1, 3)},
                      {{1, 1}, ""},
                      {{2, 0}, numbered_lines(2, 40'000)},  // some pieces
                      {{2, 1}, std::string(600'000, 'x') + '\n' + numbered_lines(2, 2)},
                      {{4, 1}, numbered_lines(4, 1)}};
  for (const GatheredLines& found : gather_files(view, files, to.path())) {
    EXPECT_EQ(found.lost, 0u);
    EXPECT_TRUE(found.mine_are_there);
  }
  for (const auto& [place, content] : files) {
    const std::string path = text(to.path(), "/file-", place.second, '-', place.first);
    if (content.empty()) continue;
    EXPECT_EQ(read_whole_file(path).or_throw(), content) << path;
  }
  // Appended: the same again.
  gather_files(view, files, to.path());
  EXPECT_EQ(read_whole_file(to.path() + "/file-0-1").or_throw(), files.at({1, 0}) + files.at({1, 0}));
}

TEST(LineGathererTest, LeavesOutALineThatIsNotWhole) {
  const FolderView view(Members({0, 1}), {true, false});
  const TemporaryFolder to;
  gather_files(view, {{{1, 0}, "whole\nhal"}, {{1, 1}, "of the next file\n"}}, to.path());
  EXPECT_EQ(read_whole_file(to.path() + "/file-0-1").or_throw(), "whole\n");
  EXPECT_EQ(read_whole_file(to.path() + "/file-1-1").or_throw(), "of the next file\n");
}

TEST(LineGathererTest, CountsWhatRank0CannotWriteAndTellsTheKeeperWhoseItIs) {
  const FolderView view(Members({0, 1, 2}), {true, false, false});
  const TemporaryFolder to;
  const auto found = gather_files(view, {{{1, 0}, numbered_lines(1, 7)}, {{2, 1}, ""}}, to.path(), "no-folder/");
  EXPECT_EQ(found[0].lost, 7u);
  EXPECT_EQ(found[0].why_lost, "No such file or directory");
  EXPECT_FALSE(found[1].mine_are_there);
  EXPECT_TRUE(found[2].mine_are_there);
}

}  // namespace
}  // namespace stretto
