#include "stretto/train/job/files/line_gatherer.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/collective/base/scheduled_collective.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

constexpr std::uint64_t kPieceWords = 64 << 10;
constexpr std::uint64_t kPieceBytes = kPieceWords * sizeof(std::int32_t);
using Piece = std::vector<std::int32_t>;

constexpr Duration kLookAgain = std::chrono::seconds(1);

std::span<char> bytes_of(Piece& piece) {
  return {reinterpret_cast<char*>(piece.data()), kPieceBytes};
}

/// A piece from each keeper to rank 0, and an answer: a keeper that sent on would fill rank 0's memory.
Schedule piece_schedule(int rank, int ranks, const std::vector<int>& keepers) {
  ScheduleBuilder b("lines to rank 0", rank, ranks);
  std::vector<OpId> ops;
  for (const int keeper : keepers) {
    if (rank != 0 && rank != keeper) continue;
    const Slice piece = b.whole(b.buffer(text("piece of rank ", keeper), DataType::int32, kPieceWords));
    if (rank == 0) {
      ops.push_back(b.send(keeper, 0, {}, {b.recv(keeper, 0, piece, {})}));
    } else {
      ops.push_back(b.send(0, 0, piece, {}));
      ops.push_back(b.recv(0, 0, {}, {}));
    }
  }
  const OpId complete = b.nop(ops);
  b.label(complete, "complete");
  return b.build(complete);
}

/// A keeper's files, one after the other.
class Outgoing {
 public:
  explicit Outgoing(std::vector<std::string> paths) : paths_(std::move(paths)) {
    for (const std::string& path : paths_) {
      std::error_code none;
      const std::uintmax_t bytes = std::filesystem::file_size(path, none);
      sizes_.push_back(none ? 0 : bytes);
    }
  }

  const std::vector<std::uint64_t>& sizes() const { return sizes_; }
  /// The next bytes. Those of a file that cannot be read any more are line breaks.
  void fill(std::span<char> piece) {
    while (!piece.empty() && next_ < paths_.size()) {
      const auto at_once = std::min<std::uint64_t>(piece.size(), sizes_[next_] - read_);
      if (at_once == 0) {
        ++next_;
        read_ = 0;
        file_ = std::ifstream();
        continue;
      }
      if (read_ == 0) file_ = std::ifstream(paths_[next_], std::ios::binary);
      file_.read(piece.data(), static_cast<std::streamsize>(at_once));
      const auto had = static_cast<std::size_t>(file_.gcount());
      whole_ = whole_ && had == at_once;
      std::ranges::fill(piece.subspan(had, at_once - had), '\n');
      read_ += at_once;
      piece = piece.subspan(at_once);
    }
  }
  bool whole() const { return whole_; }  ///< every file could be read so far

 private:
  const std::vector<std::string> paths_;
  std::vector<std::uint64_t> sizes_;
  std::ifstream file_;
  std::size_t next_ = 0;    // file
  std::uint64_t read_ = 0;  // bytes of it
  bool whole_ = true;
};

/// The files of one keeper, as they come to rank 0.
class Incoming {
 public:
  Incoming(const LineGathering& gathering, std::vector<int> ranks, std::vector<std::uint64_t> sizes)
      : gathering_(gathering),
        ranks_(std::move(ranks)),
        sizes_(std::move(sizes)),
        files_each_(ranks_.empty() ? 1 : sizes_.size() / ranks_.size()) {}

  void take(std::string_view piece) {
    while (next_ < sizes_.size()) {
      const std::uint64_t left = sizes_[next_] - taken_;
      const std::string_view part = piece.substr(0, left);
      piece.remove_prefix(part.size());
      taken_ += part.size();
      take_lines(part);
      if (part.size() < left) return;
      end_file();
    }
  }
  std::uint64_t lost() const { return lost_; }
  const std::string& why_lost() const { return why_lost_; }

 private:
  void take_lines(std::string_view part) {
    for (auto end = part.find('\n'); end != std::string_view::npos; end = part.find('\n')) {
      line_.append(part.substr(0, end));
      part.remove_prefix(end + 1);
      end_line();
    }
    line_.append(part);
  }
  void end_line() {
    if (!line_.empty()) {
      if (!file_) {
        const auto [path, mode] = gathering_.place(ranks_[next_ / files_each_], next_ % files_each_, line_);
        file_.emplace(path, mode);
      }
      file_->append(line_);
    }
    line_.clear();
  }
  void end_file() {
    line_.clear();  // of a run that was killed: no whole line
    if (file_) {
      file_->flush();
      lost_ += file_->lost();
      if (why_lost_.empty()) why_lost_ = file_->why_lost();
      file_.reset();
    }
    taken_ = 0;
    ++next_;
  }

  const LineGathering& gathering_;
  const std::vector<int> ranks_;
  const std::vector<std::uint64_t> sizes_;
  const std::size_t files_each_;
  std::size_t next_ = 0;
  std::uint64_t taken_ = 0;
  std::string line_;  // what has come of it
  std::optional<LineFile> file_;
  std::uint64_t lost_ = 0;
  std::string why_lost_;
};

std::uint64_t pieces_of(const std::vector<std::vector<std::uint64_t>>& sizes) {
  std::uint64_t most = 0;
  for (const auto& files : sizes) {
    std::uint64_t bytes = 0;
    for (const std::uint64_t size : files) bytes += size;
    most = std::max(most, (bytes + kPieceBytes - 1) / kPieceBytes);
  }
  return most;
}

}  // namespace

GatheredLines gather_lines(Engine& engine, Meeting& meeting, Driver& driver, const FolderView& view,
                           const LineGathering& gathering) {
  const int rank = engine.rank();
  const bool sends = view.is_keeper(rank);
  std::vector<std::string> paths;
  for (const int kept : view.kept_by(rank)) std::ranges::copy(gathering.files_of(kept), std::back_inserter(paths));
  meeting.gather(driver, {});  // all have flushed their files
  Outgoing outgoing(std::move(paths));
  const auto sizes = meeting.gather_lists(driver, outgoing.sizes());

  std::deque<Incoming> incoming;
  std::vector<Piece> pieces(rank == 0 ? view.keepers().size() : sends ? 1 : 0, Piece(kPieceWords));
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    arguments.push_back(rank == 0 ? Argument::out(pieces[i]) : Argument::in(pieces[i]));
    const int keeper = view.keepers()[i];
    if (rank == 0) incoming.emplace_back(gathering, view.kept_by(keeper), sizes[static_cast<std::size_t>(keeper)]);
  }
  ScheduledCollective rounds(engine, piece_schedule(rank, engine.size(), view.keepers()));
  for (std::uint64_t left = pieces_of(sizes); left > 0; --left) {
    if (sends) outgoing.fill(bytes_of(pieces[0]));
    Result<void> done = rounds.run(driver, driver.deadline(kLookAgain), arguments);
    while (!done && done.error().code == Errc::timeout) {
      done = rounds.run(driver, driver.deadline(kLookAgain), arguments);
    }
    done.or_throw();
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      const std::span<char> piece = bytes_of(pieces[i]);
      incoming[i].take({piece.data(), piece.size()});
    }
  }

  GatheredLines gathered;
  std::vector<std::uint64_t> lost;  // of each keeper
  for (Incoming& one : incoming) {
    one.take({});
    lost.push_back(one.lost());
    gathered.lost += one.lost();
    if (gathered.why_lost.empty()) gathered.why_lost = one.why_lost();
  }
  const auto all_lost = meeting.gather_lists(driver, lost)[0];
  if (sends) {
    const auto place = std::ranges::find(view.keepers(), rank) - view.keepers().begin();
    gathered.mine_are_there = outgoing.whole() && all_lost[static_cast<std::size_t>(place)] == 0;
  }
  return gathered;
}

}  // namespace stretto
