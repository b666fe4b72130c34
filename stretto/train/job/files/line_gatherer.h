#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/engine/engine.h"
#include "stretto/observe/line_file.h"
#include "stretto/train/job/files/folder_view.h"

namespace stretto {

/// How the lines of files come from the folders of keepers to that of rank 0.
struct LineGathering {
  /// The files of a rank, in this rank's own folder: as many of every rank, in the same order. One that is not there
  /// counts as empty.
  std::function<std::vector<std::string>(int rank)> files_of;
  /// On rank 0: where the lines of file `file` of `rank` go, by the first of them.
  struct Place {
    std::string path;
    LineFile::Mode mode = LineFile::Mode::replace;
  };
  std::function<Place(int rank, std::size_t file, std::string_view first_line)> place;
};

struct GatheredLines {
  std::uint64_t lost = 0;      ///< on rank 0: lines that could not be written
  std::string why_lost;        ///< and why the first of them
  bool mine_are_there = true;  ///< on a keeper: every line of its files is in rank 0's folder
};

/// Brings the files of the keepers' ranks to rank 0, by messages of 256 KiB, of which each keeper has one under way.
/// Every rank calls, once all have flushed their files. Rank 0 writes the lines as LineFile does: a full disk costs
/// lines. The keepers' files stay. Throws Failure (Errc::lost_peer).
GatheredLines gather_lines(Engine& engine, Meeting& meeting, Driver& driver, const FolderView& view,
                           const LineGathering& gathering);

}  // namespace stretto
